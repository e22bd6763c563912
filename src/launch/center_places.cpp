#include "launch/center_places.h"

#include <string_view>

#include <fmt/format.h>

#include "launch/center_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kUnix = "unix:";

}  // namespace

fs::path socketOf(const std::string& address) {
  return address.starts_with(kUnix) ? fs::path(address.substr(kUnix.size())) : fs::path();
}

CenterShare wholeCenter(int servers, const fs::path& folder) {
  CenterShare share{.isFirst = true};
  for (int i = 0; i < servers; ++i) {
    share.servers.push_back(i);
    share.addresses.push_back(fmt::format("{}{}", kUnix, (folder / fmt::format("server-{}", i)).string()));
  }
  share.listen = share.addresses;
  return share;
}

fs::path snapshotFolder(const fs::path& jobDirectory) {
  return jobDirectory / "snapshots";
}

void removeSnapshots(const fs::path& folder, const std::vector<int>& servers) noexcept {
  std::error_code ignored;
  for (const int server : servers) {
    for (const char* kind : {"snapshot", "lock"})
      fs::remove(folder / fmt::format("server-{}.{}", server, kind), ignored);
  }
  fs::remove(folder, ignored);
}

std::vector<std::string> serverCommand(const CenterSupervisorOptions& options, const CenterShare& share,
                                       int index, const fs::path& jobDirectory) {
  const auto place = static_cast<std::size_t>(index);
  std::vector<std::string> words{options.common.command.front(),
                                 "serve",
                                 "--listen",
                                 share.listen[place],
                                 "--servers",
                                 std::to_string(options.servers),
                                 "--server-index",
                                 std::to_string(share.servers[place]),
                                 "--job-dir",
                                 snapshotFolder(jobDirectory).string(),
                                 "--snapshot-every",
                                 fmt::format("{}s", options.snapshotSeconds)};
  words.insert(words.end(), {options.hasJournal ? "--journal" : "--no-journal"});
  if (options.hasJournal) words.push_back((jobDirectory / "journal").string());
  if (!share.credentials.empty()) words.insert(words.end(), {"--credentials", share.credentials.string()});
  if (share.isInsecure) words.emplace_back("--insecure");
  return words;
}

fs::path fifoOf(const fs::path& jobDirectory, const CenterSupervisorOptions& options) {
  if (!options.share) return jobDirectory / "supervisor";
  const CenterShare& share = *options.share;
  return jobDirectory / (options.common.workers > 0
                             ? fmt::format("supervisor-worker-{}", share.firstWorker)
                             : fmt::format("supervisor-server-{}", share.servers.front()));
}

void removeCenterLeftovers(const fs::path& jobDirectory) {
  std::error_code ignored;
  fs::remove_all(snapshotFolder(jobDirectory), ignored);
  for (const auto& [index, address] : readCenterFiles(jobDirectory).servers) {
    const fs::path socket = socketOf(address);
    if (socket.empty() || !fs::is_socket(socket, ignored)) continue;
    fs::remove(socket, ignored);
    fs::remove(socket.parent_path(), ignored);  // with the last one
  }
}

}  // namespace cohort
