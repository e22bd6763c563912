// Starts the members of a run on their hosts over ssh, shows what the workers print, and starts again what dies: a worker
// alone, while the others go on; a server, which its workers find again.
//
// What a member prints is added to JOB/logs/launch-ROLE-K.txt. All that was started ends with this process, however it ends, and
// so does each member whose connection breaks (attend.h).
//
// One thread, without MPI, gRPC and OpenMP.
#pragma once

#include <filesystem>
#include <vector>

#include "launch/remote_command.h"
#include "report/console.h"

namespace cohort {

struct RemoteSupervision {
  RemotePlan plan;
  std::vector<PlannedMember> members;  // as parseHostsFile has them
  std::filesystem::path job = {};
  int maxRestarts = 3;  // of one member in a row, between which the run wrote nothing
};

// Returns the exit code of the run: 0, or that of one that stopped after a checkpoint, also because this process was sent a
// SIGINT, SIGTERM or SIGUSR1; a second one ends everything at once. UsageError and IoError as members say; PeerError where they
// die and starting them again is of no use; UsageError where another process has launched the run of this folder.
int superviseRemote(const RemoteSupervision& options, Screen& screen);

}  // namespace cohort
