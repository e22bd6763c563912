// How a worker finds the others of its group, where each of them has been started by a supervisor of its own. Private to cli.
#pragma once

#include <memory>
#include <string>

#include "cli/train_request.h"
#include "comm/communicator.h"
#include "launch/supervisor_link.h"

namespace cohort {

// Connects this worker with its group, whose workers meet at these addresses, by comma; returns nothing where it is asked to leave meanwhile.
// PeerError where one does not come within --recovery-wait.
std::unique_ptr<Communicator> meetGroup(const RunContext& context, const TrainArguments& arguments,
                                        const std::string& addresses, int worker, SupervisorLink& link,
                                        const StopFlag& stop);

// Sockets in this folder, for groups whose workers all are this process's: by worker, those of its group.
std::vector<std::vector<std::string>> groupSockets(const std::filesystem::path& folder, int workers,
                                                   int groupSize);
// Where a worker with this number listens to its group there.
std::string groupSocket(const std::filesystem::path& folder, int worker);

}  // namespace cohort
