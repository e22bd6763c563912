// Modelled time: what is to happen, in order. What happens in the same moment happens in the order in which it was planned.
// Private to planner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "planner/worker_network.h"

namespace cohort {

class Timeline {
 public:
  using Action = std::function<void()>;

  double now() const { return now_; }
  void at(double time, Action action);
  // Until nothing is left.
  void run();

 private:
  struct Event {
    double time = 0;
    std::uint64_t number = 0;
    Action action;
    bool operator<(const Event& other) const {  // the first is the greatest
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  double now_ = 0;
  std::uint64_t planned_ = 0;
  std::priority_queue<Event> events_;
};

// The workers' communication threads and their hosts' cables. A communication thread does one thing after the other: it sends a
// message for as long as the cable takes it, or applies an update. What goes to another host also waits for this host's cable, travels
// for a latency, and waits for the cable there; inside a host nothing else is waited for.
class Communication {
 public:
  struct Busy {
    double begin = 0;
    double end = 0;
  };

  // Both outlive this.
  Communication(const WorkerNetwork& network, Timeline& timeline);

  // From now on, as soon as the thread is free; returns when it was busy with it.
  Busy send(int from, int to, std::size_t bytes, Timeline::Action arrived);
  Busy work(int worker, double seconds);
  std::size_t sentBytes(int worker) const { return sentBytes_[static_cast<std::size_t>(worker)]; }

 private:
  struct Cable {
    double outFree = 0;
    double inFree = 0;
  };

  const WorkerNetwork& network_;
  Timeline& timeline_;
  std::vector<double> threadFree_;  // by worker
  std::vector<std::size_t> sentBytes_;
  std::vector<Cable> cables_;  // by host
};

}  // namespace cohort
