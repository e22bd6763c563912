// Cluster files: what is read is written as something that is read as the same, and has places or says why not.
#include "tests/fuzz/fuzz_target.h"
#include "train/cluster_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source = "cluster.yaml";
  cohort::isAccepted(source, [&] {
    const cohort::ClusterModel model = cohort::clusterFromYaml(cohort::textOf({data, size}), source);
    if (cohort::clusterFromYaml(cohort::toYaml(model), source) != model) __builtin_trap();
    cohort::placeOn(model, 8, 1, source);
  });
  return 0;
}
