// Strategy files: how each layer is divided.
#include "tests/fuzz/fuzz_target.h"
#include "train/strategy_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source = "strategy.yaml";
  cohort::isAccepted(source, [&] { cohort::splitsFromYaml(cohort::textOf({data, size}), source); });
  return 0;
}
