// Workers that are threads of one process, and messages that are copies: to try rules without MPI.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/transport.h"

namespace cohort {

// Outlives its transports.
class ThreadHub {
 public:
  // Messages are told to be done late and in another order, as the seed has it; 0: at once.
  explicit ThreadHub(int size, std::uint32_t disorder = 0);
  std::unique_ptr<Transport> transport(int rank);

 private:
  class Endpoint;
  struct Posted {
    Endpoint* endpoint = nullptr;
    MessageId id = 0;
    std::span<std::byte> memory;
  };
  using Route = std::tuple<int, int, int>;  // from, to, tag

  void post(const Route& route, bool isSend, const Posted& posted);

  int size_;
  std::uint32_t disorder_;
  std::mutex mutex_;
  std::map<Route, std::deque<Posted>> sends_;
  std::map<Route, std::deque<Posted>> receives_;
};

}  // namespace cohort
