// For tests only: tar and gzip made by hand.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include "fetch/checksum.h"
#include "fetch/recipe.h"

namespace cohort {

// One member, as ustar has it; type '0' is a regular file.
inline std::string tarMember(std::string_view name, std::string_view contents, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  header.replace(124, 11, fmt::format("{:011o}", contents.size()));
  header.replace(148, 8, 8, ' ');
  header[156] = type;
  header.replace(257, 8, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  const std::size_t padding = (512 - contents.size() % 512) % 512;
  return header + std::string(contents) + std::string(padding, '\0');
}

inline std::string tarEnd() {
  return std::string(1024, '\0');
}

inline std::string gzipped(std::string_view contents) {
  z_stream state{};
  if (deflateInit2(&state, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("zlib cannot start");
  }
  std::string out(deflateBound(&state, contents.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  state.avail_in = static_cast<uInt>(contents.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&state, Z_FINISH);
  out.resize(state.total_out);
  deflateEnd(&state);
  if (result != Z_STREAM_END) throw std::runtime_error("zlib cannot end");
  return out;
}

inline std::string digestOf(std::string_view contents, DigestKind kind) {
  Digest digest(kind);
  digest.add(std::as_bytes(std::span(contents)));
  return digest.hex();
}

inline KnownFile knownFile(const std::string& name, std::string_view contents) {
  return {.name = name, .bytes = contents.size(), .sha256 = digestOf(contents, DigestKind::Sha256)};
}

// Bytes that deflate hardly shortens, different for each seed.
inline std::string noise(std::size_t size, std::uint32_t seed) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1'664'525u + 1'013'904'223u;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

}  // namespace cohort
