#include "base/hash.h"

#include <algorithm>
#include <bit>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

namespace cohort {

std::uint64_t hashName(std::string_view name) {
  return XXH3_64bits(name.data(), name.size());
}

std::uint64_t hashOnward(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

ChunkHash hashChunk(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::bit_cast<ChunkHash>(canonical);
}

std::string hashOfChunks(std::span<const ChunkHash> chunks) {
  const XXH128_hash_t whole = XXH3_128bits(chunks.data(), chunks.size_bytes());
  return fmt::format("{:016x}{:016x}", whole.high64, whole.low64);
}

std::string hashBytes(std::span<const std::byte> bytes) {
  std::vector<ChunkHash> chunks;
  chunks.reserve(bytes.size() / kHashChunkBytes + 1);
  for (std::size_t at = 0; at < bytes.size(); at += kHashChunkBytes) {
    chunks.push_back(hashChunk(bytes.subspan(at, std::min(kHashChunkBytes, bytes.size() - at))));
  }
  return hashOfChunks(chunks);
}

}  // namespace cohort
