#include "base/float_buffer.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

namespace cohort {
namespace {

// How many of the buffer's pages the system holds in memory.
std::size_t residentPages(const FloatBuffer& buffer) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((buffer.size() * sizeof(float) + page - 1) / page);
  EXPECT_EQ(mincore(const_cast<float*>(buffer.data()), buffer.size() * sizeof(float), resident.data()), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(resident, [](unsigned char bits) { return (bits & 1) != 0; }));
}

TEST(FloatBuffer, IsZeroAndAlignedForEverySize) {
  for (const std::size_t size : {1, 3, 1023, 1024, 1025, 1 << 20, (1 << 20) + 1, (3 << 20) - 7}) {
    FloatBuffer buffer(size);
    ASSERT_EQ(buffer.size(), size);
    ASSERT_EQ(buffer.span().size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_TRUE(std::ranges::all_of(buffer.span(), [](float value) { return value == 0.0f; }));
    buffer.span().back() = 1.0f;
    EXPECT_EQ(buffer.span().back(), 1.0f);
  }
}

TEST(FloatBuffer, LargeBuffersStartOnAHugePage) {
  const FloatBuffer buffer(std::size_t{5} << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % (std::size_t{2} << 20), 0u);
}

TEST(FloatBuffer, UntouchedPagesCostNothing) {
  FloatBuffer buffer(std::size_t{64} << 20);
  EXPECT_EQ(residentPages(buffer), 0u);
  buffer.span()[0] = 1.0f;
  const std::size_t touched = residentPages(buffer);
  EXPECT_GE(touched, 1u);
  EXPECT_LE(touched, 512u) << "at most one huge page";
}

TEST(FloatBuffer, KeepsItsPlaceWhenMoved) {
  FloatBuffer buffer(100);
  buffer.span()[7] = 7.0f;
  const float* place = buffer.data();

  FloatBuffer moved(std::move(buffer));
  EXPECT_EQ(moved.data(), place);
  EXPECT_EQ(moved.span()[7], 7.0f);

  FloatBuffer assigned(5);
  assigned = std::move(moved);
  EXPECT_EQ(assigned.data(), place);
  EXPECT_EQ(assigned.size(), 100u);
}

TEST(FloatBuffer, MayBeEmpty) {
  EXPECT_TRUE(FloatBuffer().span().empty());
  EXPECT_TRUE(FloatBuffer(0).span().empty());
}

TEST(FloatBuffer, RefusesWhatTheMachineCannotHold) {
  EXPECT_THROW(FloatBuffer(std::size_t{1} << 62), IoError);
  EXPECT_THROW(FloatBuffer(std::size_t{1} << 50), IoError);
}

}  // namespace
}  // namespace cohort
