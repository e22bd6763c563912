// layers.json.
#include "tests/fuzz/fuzz_target.h"
#include "train/layer_table.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source = "layers.json";
  cohort::isAccepted(source, [&] { cohort::layersFromJson(cohort::textOf({data, size}), source); });
  return 0;
}
