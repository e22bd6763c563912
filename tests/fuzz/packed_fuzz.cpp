// Files of packed images.
#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "data/packed_images.h"
#include "tests/fuzz/read_images.h"

namespace {

using Bytes = std::span<std::uint8_t>;

std::uint64_t numberAt(Bytes bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, width);
  return value;
}

// Places and sizes as in data/packed_file.h.
void repairHashes(Bytes file) {
  constexpr std::size_t kHeaderBytes = 64;
  constexpr std::size_t kIndexBytesAt = 24;
  constexpr std::size_t kHashAt = 32;
  constexpr std::size_t kRecordsAt = 88;
  constexpr std::size_t kRecordBytes = 32;
  if (file.size() < kHeaderBytes) return;
  const std::uint64_t offset = numberAt(file, 16, 8);
  if (offset < kHeaderBytes || offset > file.size()) return;
  const Bytes index = file.subspan(offset);
  const std::uint64_t size = index.size();
  std::memcpy(file.data() + kIndexBytesAt, &size, sizeof(size));
  if (index.size() >= kRecordsAt) {
    const std::uint64_t room = (index.size() - kRecordsAt) / kRecordBytes;
    const std::uint64_t images = std::min(room, numberAt(index, 16, 8));
    for (std::uint64_t i = 0; i < images; ++i) {
      const Bytes record = index.subspan(kRecordsAt + i * kRecordBytes, kRecordBytes);
      const std::uint64_t begin = numberAt(record, 0, 8);
      const std::uint64_t bytes = numberAt(record, 16, 4);
      if (begin > file.size() || bytes > file.size() - begin) continue;
      const std::uint64_t hash = cohort::hashName(cohort::textOf(file.subspan(begin, bytes)));
      std::memcpy(record.data() + 8, &hash, sizeof(hash));
    }
  }
  std::ranges::copy(cohort::hashBytes(std::as_bytes(index)), file.begin() + kHashAt);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cohort::InputFile file({data, size});
  const std::string path = file.path();
  for (const cohort::Split split : {cohort::Split::Train, cohort::Split::Validation, cohort::Split::Test}) {
    const bool accepted = cohort::isAccepted(path, [&] {
      const auto set = cohort::openPackedImages(path, split);
      if (set != nullptr) cohort::readImages(*set, path);
    });
    if (!accepted) return 0;
    if (!cohort::isPackedImages(path)) cohort::failFuzzing("What is read is not recognised.");
  }
  cohort::isAccepted(path, [&] { cohort::verifyPackedImages(path); });
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize,
                                    unsigned seed) {
  return cohort::mutateAndRepair({data, maxSize}, size, seed, repairHashes);
}
