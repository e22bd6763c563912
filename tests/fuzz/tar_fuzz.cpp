// Archives, plain or gzipped. Nothing is written: where, is for fetching to say.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "fetch/tar.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

// The checksums of all headers: blocks that say "ustar".
void repairHeaders(std::span<std::uint8_t> file) {
  constexpr std::size_t kBlock = 512;
  constexpr std::size_t kSumAt = 148;
  for (; file.size() >= kBlock; file = file.subspan(kBlock)) {
    const std::span<std::uint8_t> header = file.first(kBlock);
    if (!cohort::textOf(header).substr(257).starts_with("ustar")) continue;
    std::ranges::fill(header.subspan(kSumAt, 8), std::uint8_t{' '});
    const std::string sum = fmt::format("{:06o}", std::accumulate(header.begin(), header.end(), 0));
    std::ranges::copy(sum, header.begin() + kSumAt);
    header[kSumAt + sum.size()] = 0;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cohort::InputFile file({data, size});
  // What is refused is told by a clause, which others complete with the archive's name.
  cohort::isAccepted("", [&] {
    cohort::unpackTar(file.path(), [](const std::string& member) -> std::optional<std::filesystem::path> {
      const std::filesystem::path path = member;
      if (path.is_absolute() || std::ranges::count(path, "..") > 0)
        cohort::failFuzzing("A member leaves its folder.");
      return std::nullopt;
    });
  });
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize,
                                    unsigned seed) {
  return cohort::mutateAndRepair({data, maxSize}, size, seed, repairHeaders);
}
