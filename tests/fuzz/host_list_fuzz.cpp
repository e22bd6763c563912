// Host lists, which come from the environment: what expands is what is written again.
#include "cluster/host_list.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source = "SLURM_STEP_NODELIST";
  cohort::isAccepted(source, [&] {
    const std::vector<std::string> hosts = cohort::expandHostList(cohort::textOf({data, size}), source);
    if (hosts.size() > cohort::kMostHosts) cohort::failFuzzing("more hosts than allowed");
    if (cohort::expandHostList(cohort::compressHostList(hosts), source) != hosts)
      cohort::failFuzzing("the hosts are others after they were compressed");
  });
  return 0;
}
