#include "cli/center_member.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "center/credentials.h"
#include "cli/center_options.h"
#include "cli/terminal.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// What this process starts of the center.
CenterShare shareOf(const CenterMembership& membership, const TrainArguments& arguments) {
  const Member& self = membership.cluster.self();
  CenterShare share{.addresses = membership.addresses,
                    .firstWorker = self.index * membership.workersEach,
                    .credentials = membership.credentials,
                    .isInsecure = arguments.insecure,
                    .stop = membership.stop};
  if (self.role == Role::Server || isFirstServer(membership.cluster)) {
    const int server = self.role == Role::Server ? self.index : 0;
    share.servers = {server};
    share.listen = {listenAddress(membership.addresses[static_cast<std::size_t>(server)])};
    share.isFirst = server == 0;
  }
  return share;
}

}  // namespace

bool isFirstServer(const ClusterMap& cluster) {
  const Member& self = cluster.self();
  return self.index == 0 && self.role == (cluster.count(Role::Server) > 0 ? Role::Server : Role::Worker);
}

GivenSettings workersOf(const ClusterMap& cluster, int each) {
  return {{"workers", {std::to_string(cluster.count(Role::Worker) * static_cast<std::size_t>(each))}}};
}

GivenSettings countsOf(const ClusterMap& cluster, int each) {
  GivenSettings counts = workersOf(cluster, each);
  counts["servers"] = {std::to_string(std::max<std::size_t>(1, cluster.count(Role::Server)))};
  return counts;
}

// A name is for those who look for it; here it may be another's, such as that of a service in front of a container.
std::string listenAddress(const std::string& address) {
  return isPrivateAddress(address) ? address : "[::]" + address.substr(address.rfind(':'));
}

bool needCredentials(const std::vector<std::string>& addresses, const TrainArguments& arguments) {
  return !arguments.insecure && !std::ranges::all_of(addresses, isPrivateAddress);
}

fs::path credentialsFile(const fs::path& directory) {
  return directory / "credentials.pem";
}

void makeWhereMissing(const fs::path& credentials) {
  std::error_code unreadable;  // whoever opens it says why
  if (!fs::exists(credentials, unreadable))
    writeCredentials(credentials, makeCredentials(credentials.parent_path().string()));
}

void blockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int superviseMember(const RunContext& context, const TrainArguments& arguments,
                    const CenterMembership& membership) {
  const Member& self = membership.cluster.self();
  Request request = requestOf(context, arguments, countsOf(membership.cluster, membership.workersEach));
  const bool isUnnamed = request.directory.empty();
  request.directory = membership.directory;
  Console console(stdout, stderr, terminalOptions(arguments.verbosity));  // the chief may be anywhere
  if (self.role == Role::Worker && self.index == 0) {
    printNotes(console, arguments, request.config);
    sayIdle(console, arguments, {"elastic"}, whyInelastic(request.config));
    if (isUnnamed) console.print(fmt::format("job directory {}", request.directory.string()));
  }

  CenterSupervisorOptions options{.common = supervisionOf(arguments, request, console),
                                  .servers = static_cast<int>(membership.addresses.size()),
                                  .share = shareOf(membership, arguments),
                                  .recoverySeconds = request.config.recoveryWait,
                                  .snapshotSeconds = request.config.snapshotEvery,
                                  .hasJournal = request.config.journal};
  options.common.workers = self.role == Role::Worker ? membership.workersEach : 0;
  options.cores = membership.cores;
  options.groups = membership.groups;
  std::vector<std::string>& words = options.common.command;
  words.insert(words.end(), {"-o", fmt::format("workers={}", request.config.workers)});
  if (isUnnamed) words.insert(words.end(), {"--job-dir", request.directory.string()});
  if (!membership.credentials.empty() && arguments.credentials.empty())
    words.insert(words.end(), {"--credentials", membership.credentials.string()});
  const int code = superviseCenter(options, *membership.job, console);
  console.endProgress();
  return code;
}

}  // namespace cohort
