// JOB_DIR/status/worker-K.json and server-K.json: what each process of a run says of itself about once a second, for whoever looks
// from anywhere that sees the folder. Written in place, in one call and always of the same size, since that is what other hosts
// see soonest of a shared folder; a reader that comes in between reads again.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/batch.h"

namespace cohort {

struct WorkerStatus {
  bool isServer = false;
  std::string name{};  // "0"; "n3-4711" of one that joined a center by hand
  std::string host{};
  int process = 0;
  Step step = 0;                 // done
  std::string doing{};           // "in forward conv2"
  double doingSeconds = 0;       // for so long
  std::string waitsFor{};        // "worker 1: its part of step 12"; empty where it does not wait
  bool waitsForAnother = false;  // that is a worker, not a server
  bool mayRest = false;          // a disk may take its time
  double stillSeconds = 0;       // since it last did anything
  double written = 0;            // when, by its own clock: seconds since 1970
  std::string failure{};         // what it ended with; empty: it goes on, or was killed

  bool operator==(const WorkerStatus&) const = default;
};

std::filesystem::path statusFolder(const std::filesystem::path& jobDirectory);
// "worker-0.json".
std::string statusFileName(bool isServer, std::string_view name);

// False where that fails: it must not end a run. The folder is made where it is missing.
bool writeStatus(const std::filesystem::path& jobDirectory, const WorkerStatus& status);
// Takes the file away, and the folder with the last one.
void removeStatus(const std::filesystem::path& jobDirectory, const WorkerStatus& status) noexcept;

// Those of processes of this host that it has no more: nobody else may be there to do so.
void removeDeadStatuses(const std::filesystem::path& jobDirectory);
// Whether it was a process of this host, which has none of its number. There may be others of the host's name that count for
// themselves.
bool seemsGone(const WorkerStatus& status);

// Workers before servers, each by number; files that are none of ours are left out.
std::vector<WorkerStatus> readStatuses(const std::filesystem::path& jobDirectory);

}  // namespace cohort
