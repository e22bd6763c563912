// Where a supervised center has its sockets, snapshots and lines, and how its servers are told. Private to launch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/center_supervisor.h"

namespace cohort {

// The socket's path; empty where an address is none.
std::filesystem::path socketOf(const std::string& address);

// All servers and workers, which talk over sockets in a folder of this user's.
CenterShare wholeCenter(int servers, const std::filesystem::path& folder);

// Where servers keep their snapshots while a run goes.
std::filesystem::path snapshotFolder(const std::filesystem::path& jobDirectory);

// Those of these servers, which have ended well; the last one of all removes the folder.
void removeSnapshots(const std::filesystem::path& folder, const std::vector<int>& servers) noexcept;

// What the index-th server of the share is started with.
std::vector<std::string> serverCommand(const CenterSupervisorOptions& options, const CenterShare& share,
                                       int index, const std::filesystem::path& jobDirectory);

// The line to a supervisor's processes; each that shares the folder has its own, the same one after it was killed.
std::filesystem::path fifoOf(const std::filesystem::path& jobDirectory,
                             const CenterSupervisorOptions& options);

}  // namespace cohort
