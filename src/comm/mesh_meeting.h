// How workers that know each other's addresses come together. Private to comm.
#pragma once

#include <memory>
#include <vector>

#include "comm/mesh_transport.h"
#include "comm/socket_stream.h"

namespace cohort {

// Returns when every worker is connected with every other: the streams to these, by rank, and nothing for this one itself. PeerError
// where one does not come, IoError where this one cannot listen.
std::vector<std::unique_ptr<SocketStream>> meetWorkers(const MeshPlace& place);

}  // namespace cohort
