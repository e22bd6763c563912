// TF_CONFIG: whatever it is, one sentence or a cluster that has this process.
#include "cluster/tf_config.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cohort::isAccepted("TF_CONFIG", [&] {
    const cohort::ClusterMap cluster = cohort::parseTfConfig(std::string(cohort::textOf({data, size})));
    if (cluster.me >= cluster.members.size()) cohort::failFuzzing("this process is no member");
    if (cluster.count(cohort::Role::Worker) == 0) cohort::failFuzzing("nobody works");
  });
  return 0;
}
