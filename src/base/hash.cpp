#include "base/hash.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

namespace cohort {

std::uint64_t hashName(std::string_view name) {
  return XXH3_64bits(name.data(), name.size());
}

std::string hashBytes(std::span<const std::byte> bytes) {
  std::vector<XXH128_canonical_t> chunks;
  chunks.reserve(bytes.size() / kHashChunkBytes + 1);
  for (std::size_t at = 0; at < bytes.size(); at += kHashChunkBytes) {
    const auto chunk = bytes.subspan(at, std::min(kHashChunkBytes, bytes.size() - at));
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(chunk.data(), chunk.size()));
    chunks.push_back(canonical);
  }
  const XXH128_hash_t whole = XXH3_128bits(chunks.data(), chunks.size() * sizeof(XXH128_canonical_t));
  return fmt::format("{:016x}{:016x}", whole.high64, whole.low64);
}

}  // namespace cohort
