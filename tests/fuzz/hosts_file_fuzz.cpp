// A hosts file: whatever it is, one sentence or members whose flags the program itself understands.
#include "cluster/host_flags.h"
#include "cluster/hosts_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {
namespace {

// The flags as `cohort train` reads them.
HostFlags flagsOf(const std::vector<std::string>& words) {
  HostFlags flags;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == "--ps-hosts") flags.psHosts = words[i + 1];
    if (words[i] == "--worker-hosts") flags.workerHosts = words[i + 1];
    if (words[i] == "--job-name") flags.jobName = words[i + 1];
    if (words[i] == "--task-index") flags.taskIndex = std::stoi(words[i + 1]);
  }
  return flags;
}

}  // namespace
}  // namespace cohort

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<cohort::PlannedMember> members;
  const bool isAccepted = cohort::isAccepted("hosts", [&] {
    members = cohort::parseHostsFile(cohort::textOf({data, size}), "hosts");
  });
  if (!isAccepted) return 0;
  for (const std::size_t me : {std::size_t{0}, members.size() - 1}) {
    const cohort::Member& place = members[me].place;
    const cohort::ClusterMap cluster = cohort::clusterOf(cohort::flagsOf(cohort::placeFlags(members, me)));
    // An evaluator is in no list.
    const bool isListed = place.role != cohort::Role::Evaluator;
    if (isListed ? cluster.self() != place : cluster.self().role != place.role)
      cohort::failFuzzing("its flags say another place");
  }
  return 0;
}
