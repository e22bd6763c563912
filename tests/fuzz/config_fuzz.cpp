// Configurations in YAML.
#include "tests/fuzz/fuzz_target.h"
#include "train/config_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source = "config.yaml";
  cohort::isAccepted(source, [&] { cohort::settingsFromYaml(cohort::textOf({data, size}), source); });
  return 0;
}
