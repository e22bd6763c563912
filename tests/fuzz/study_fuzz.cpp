// Files of studies.
#include "study/study_file.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source = "study.yaml";
  cohort::isAccepted(source, [&] { cohort::parseStudyFile(cohort::textOf({data, size}), source); });
  return 0;
}
