// For tests only: what is said to a center, as bytes that can be mutated.
//
//   input   := start frame…
//   start   := one byte: the rule in bits 0 and 1, "the run is open" in bit 2, "it is the second of two servers" in bit 3
//   frame   := place payload length envelope
//   place   := one byte: the link in bits 0 to 2, what happens in bits 3 and 4 (0 and 1 a word, 2 the link's end, 3 a halt)
//   payload := one byte: how many bytes follow the envelope
//   length  := two bytes, least significant first: of the envelope, as far as there are as many
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort {

struct CenterFrame {
  std::uint8_t place = 0;
  std::uint8_t payload = 0;
  std::string envelope{};
};

inline std::vector<CenterFrame> centerFrames(std::span<const std::uint8_t> bytes) {
  std::vector<CenterFrame> frames;
  while (bytes.size() >= 4) {
    const std::size_t length = std::min<std::size_t>(bytes[2] + 256U * bytes[3], bytes.size() - 4);
    frames.push_back(
        {bytes[0], bytes[1], {bytes.begin() + 4, bytes.begin() + 4 + static_cast<std::ptrdiff_t>(length)}});
    bytes = bytes.subspan(4 + length);
  }
  return frames;
}

inline std::string bytesOf(const std::vector<CenterFrame>& frames) {
  std::string bytes;
  for (const CenterFrame& frame : frames) {
    const std::size_t length = std::min<std::size_t>(frame.envelope.size(), 0xffff);
    for (const std::size_t value :
         {std::size_t{frame.place}, std::size_t{frame.payload}, length % 256, length / 256})
      bytes += static_cast<char>(static_cast<std::uint8_t>(value));
    bytes += frame.envelope.substr(0, length);
  }
  return bytes;
}

}  // namespace cohort
