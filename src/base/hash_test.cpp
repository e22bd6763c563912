#include "base/hash.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

std::string hashText(std::string_view text) {
  return hashBytes(std::as_bytes(std::span(text)));
}

// These key random streams and stand in old runs' files: a change would change every run.
TEST(Hash, StaysWhatItIs) {
  EXPECT_EQ(hashName(""), 0x2d06800538d394c2u);  // XXH3-64 of nothing, as its specification has it
  EXPECT_EQ(hashText(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hashName("conv1.weight"), 0x68019ca25a01e5c4u);
  EXPECT_EQ(hashText("conv1.weight"), "5f4ae032dce714cc24ab386586497b74");
}

TEST(Hash, OfALongBufferIsMadeOfItsChunks) {
  std::vector<std::byte> bytes(2 * kHashChunkBytes + 5, std::byte{7});
  const std::string whole = hashBytes(bytes);
  EXPECT_EQ(whole.size(), 32u);
  EXPECT_EQ(hashBytes(bytes), whole);
  for (const std::size_t place : {std::size_t{0}, kHashChunkBytes - 1, kHashChunkBytes, bytes.size() - 1}) {
    bytes[place] = std::byte{8};
    EXPECT_NE(hashBytes(bytes), whole) << place;
    bytes[place] = std::byte{7};
  }
}

TEST(Hash, SeesTheOrderOfChunksAndTheLength) {
  std::vector<std::byte> bytes(2 * kHashChunkBytes, std::byte{1});
  std::fill_n(bytes.begin(), kHashChunkBytes, std::byte{2});
  std::vector<std::byte> swapped(2 * kHashChunkBytes, std::byte{2});
  std::fill_n(swapped.begin(), kHashChunkBytes, std::byte{1});
  EXPECT_NE(hashBytes(bytes), hashBytes(swapped));
  EXPECT_NE(hashText(std::string(3, '\0')), hashText(std::string(4, '\0')));
}

}  // namespace
}  // namespace cohort
