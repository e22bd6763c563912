// metrics.jsonl.
#include "report/metrics_file.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const cohort::InputFile file({data, size});
  cohort::isAccepted(file.path(), [&] { cohort::readMetrics(file.path()); });
  return 0;
}
