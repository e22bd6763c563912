// IDX files, plain or gzipped.
#include "data/idx_file.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cohort::InputFile file({data, size});
  for (const int dimensions : {1, 3}) {
    cohort::isAccepted(file.path(), [&] { cohort::readIdx(file.path(), dimensions); });
  }
  return 0;
}
