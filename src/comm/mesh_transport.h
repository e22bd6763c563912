// Messages by TCP, or by sockets of one host, between processes that nobody has started as one job: each knows all addresses, and its
// own place among them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/transport.h"

namespace cohort {

// By which workers prove to each other that they belong to the run: PEM texts, and the name in every certificate.
struct MeshCredentials {
  std::string authority;
  std::string certificate;
  std::string key;
  std::string name;
};

struct MeshPlace {
  int rank = 0;
  std::vector<std::string>
      addresses{};       // HOST:PORT or unix:PATH of every worker, by rank; the first one's is not used
  std::string listen{};  // where this one does; the first one does not, it calls the others
  std::optional<MeshCredentials> credentials{};  // nothing: whoever reaches the port is believed
  double patience = 60;                          // seconds that workers may take to come
  int first = 0;                                 // the first one's number, as sentences have it
  double silence =
      0;  // seconds without an answer after which a worker is gone; 0: as long as the system waits
  std::function<bool()> isGivenUp = [] { return false; };  // looked at while others are waited for
};

// Returns when every worker is connected with every other. PeerError where one does not come or the meeting is given up, IoError where this one
// cannot listen. A worker that is gone later is a PeerError of `poll`.
std::unique_ptr<Transport> connectMesh(const MeshPlace& place);

}  // namespace cohort
