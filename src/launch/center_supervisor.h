// Starts servers and workers of a run with a center, shows what they tell, and starts again what dies: a worker alone (or its
// group), while the others go on; a server, which its workers find again. They are all of the run's, on one machine; or the share of one process
// of a cluster, while others start the rest. A group whose workers several processes start meets by addresses: where one of them dies the others
// end too, each is started again where it was, and they meet anew.
//
// One thread, without gRPC and OpenMP. All that it starts ends with it, however it ends.
#pragma once

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/cores.h"
#include "launch/supervision.h"
#include "report/console.h"
#include "train/job_directory.h"

namespace cohort {

// Set for supervised workers of a center: which one it is, and which cores it has (as `ownedCoresText` says it).
inline constexpr const char* kWorkerVariable = "COHORT_WORKER";
inline constexpr const char* kWorkerCoresVariable = "COHORT_WORKER_CORES";
// Of those of a group, instead of the first: which one the group's first worker is. The cores are then those of all, one after the other.
inline constexpr const char* kGroupVariable = "COHORT_GROUP";
inline constexpr const char* kNextWorker = ";";

// Of one whose group meets by addresses: those of all its workers, by comma. Groups are of consecutive workers.
inline constexpr const char* kGroupAddressesVariable = "COHORT_GROUP_ADDRESSES";

// Sent to a supervised worker: it leaves after its present work, and the others go on.
inline constexpr int kLeaveSignal = SIGUSR2;

// What of a center is started here.
struct CenterShare {
  // What a signal to this process asks for.
  enum class Stop {
    Run,  // that the run ends after a checkpoint, which a server sees to; where there is none here, another has heard it too
    Leave,  // the same of a server; without one, that the workers here leave, while the run goes on
  };

  std::vector<std::string> addresses{};  // of all servers, in their order
  std::vector<int> servers{};            // the numbers of those here
  std::vector<std::string> listen{};     // where each of these does
  int firstWorker = 0;                   // the number of the first one here
  std::filesystem::path credentials{};   // of the servers; empty: they need none
  bool isInsecure = false;               // they have none though others may reach them
  Stop stop = Stop::Run;
  bool isFirst = false;  // writes where the center is, for all to see
};

struct CenterSupervisorOptions {
  // The program is that of the servers too; workers are also told what to join. Restarts of a worker or server count between which
  // the run makes no step.
  Supervision common{};
  std::vector<OwnedCores> cores{};  // by worker of this machine
  int groupSize = 1;                // workers that are one member of the center, under an mpirun of their own
  // By worker here, of one whose group meets by addresses: those of all its workers, in their order. Each is a process then, and groupSize 1.
  std::vector<std::vector<std::string>> groups{};
  int servers = 1;                     // of the whole run
  std::optional<CenterShare> share{};  // nothing: all is started here
  double recoverySeconds = 60;         // that a worker waits for a server, and may stand still
  double snapshotSeconds = 30;
  bool hasJournal = true;  // of its servers' updates, in the job directory
};

// What those who were killed could not remove: snapshots (between starts of a run, its checkpoints count) and sockets, which its
// addresses name. By whoever leads the folder.
void removeCenterLeftovers(const std::filesystem::path& jobDirectory);

// Returns the exit code of the run: 0, or that of one that was stopped after a checkpoint because this process was sent a SIGINT,
// SIGTERM or SIGUSR1; a second SIGINT ends everything at once, and so does any second one where all is here. UsageError and IoError
// as the workers say; PeerError where they die and starting them again is of no use.
int superviseCenter(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen);

}  // namespace cohort
