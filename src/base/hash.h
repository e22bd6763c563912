// Hashes that name things: of names (keys of random streams) and of large buffers (weights, checkpoints).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cohort {

// A 64-bit hash of a name; stable for ever: it keys random streams.
std::uint64_t hashName(std::string_view name);
// Of a few bytes; with the hash of what stands before them as seed, of all.
std::uint64_t hashOnward(std::span<const std::byte> bytes, std::uint64_t seed);

// The hash of a long buffer, as 32 hexadecimal digits: XXH3-128 over the XXH3-128 hashes of its 4 MiB chunks,
// so that several processes can hash their own chunks and arrive at the same string.
std::string hashBytes(std::span<const std::byte> bytes);

// The same by parts: the hashes of chunks, each of kHashChunkBytes but the last, and the hash of all chunks' hashes in order.
inline constexpr std::size_t kHashChunkBytes = std::size_t{4} << 20;
using ChunkHash = std::array<std::byte, 16>;
ChunkHash hashChunk(std::span<const std::byte> bytes);
std::string hashOfChunks(std::span<const ChunkHash> chunks);

}  // namespace cohort
