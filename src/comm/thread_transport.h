// Workers that are threads of one process, and messages that are copies: to try rules without MPI, and for the workers of one
// task (task_transport.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/transport.h"

namespace cohort {

// Outlives its transports.
class ThreadHub {
 public:
  // Messages are told to be done late and in another order, as the seed has it; 0: at once.
  explicit ThreadHub(int size, std::uint32_t disorder = 0);
  ~ThreadHub();
  ThreadHub(const ThreadHub&) = delete;
  ThreadHub& operator=(const ThreadHub&) = delete;

  // One for each rank.
  std::unique_ptr<Transport> transport(int rank);

 private:
  class Endpoint;
  struct Posted {
    Endpoint* endpoint = nullptr;
    MessageId id = 0;
    std::span<std::byte> memory;
  };
  // What one worker receives. Whoever comes second, sender or receiver, copies under its lock: copies to different workers are
  // made at the same time, and none is under way when a worker has taken back what it posted.
  struct Mailbox {
    using Route = std::pair<int, int>;  // from, tag
    std::mutex mutex;
    std::map<Route, std::deque<Posted>> sends;
    std::map<Route, std::deque<Posted>> receives;
  };

  void post(int to, const Mailbox::Route& route, bool isSend, const Posted& posted);
  void withdraw(const Endpoint& endpoint);

  std::uint32_t disorder_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;  // by rank
};

}  // namespace cohort
