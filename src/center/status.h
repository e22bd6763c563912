// How a center's servers are: for people who look from outside.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/batch.h"

namespace cohort {

class Connector;

struct ServerStatus {
  struct Member {
    std::string name;
    Step finished = 0;  // works, since it came
    Step step = -1;     // of the last
    bool isChief = false;
  };

  std::string name;  // of the server
  bool isOpen = false;
  std::string rule;
  std::optional<Step> target{};
  Step done = 0;  // the first server knows
  std::int64_t dropped = 0;
  std::vector<Member> members;          // of the first server
  Step version = 0;                     // updates that its parameters have had
  std::int64_t duplicates = 0;          // gradients that came twice, or too late
  std::int64_t lost = 0;                // updates that no snapshot had when it died
  std::vector<std::int64_t> staleness;  // updates by what came between: 0, 1, 2-3, 4-7 …
  std::uint64_t floats = 0;             // parameters that it has
  std::uint64_t bytesReceived = 0;
  std::uint64_t bytesSent = 0;
  double updateSeconds = 0;
  // Gossip: whose the shares of its parameters are. They add up to the same number always.
  struct Shares {
    std::uint64_t workers = 0;
    std::uint64_t mail = 0;
    std::uint64_t nobodys = 0;
  };
  std::optional<Shares> shares{};
};

// Of each server, in their order. PeerError where one does not answer in time.
std::vector<ServerStatus> fetchStatus(Connector& servers, double seconds);

}  // namespace cohort
