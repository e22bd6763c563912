// For tests only: makes records with right lengths and checksums (base/record_file.h) of a mutated file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/record_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

inline void repairRecords(std::span<std::uint8_t> file) {
  constexpr std::size_t kBefore = 12;
  constexpr std::size_t kFrame = kBefore + 4;
  while (file.size() >= kFrame) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof(length));
    length = std::min<std::uint64_t>(length, file.size() - kFrame);
    const std::string record = frameRecord(textOf(file.subspan(kBefore, length)));
    std::ranges::copy(record, file.begin());
    file = file.subspan(record.size());
  }
}

}  // namespace cohort
