// Works whose gradients are computed when somebody needs them, those that are due next together: what is lost before that is never computed.
// Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <set>

#include "simulation/virtual_time.h"
#include "simulation/workbench.h"

namespace cohort {

class WorkQueue {
 public:
  // A kind of rule has its own.
  struct Job {
    Job() = default;
    virtual ~Job() = default;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    virtual Workbench::Task task() = 0;
    // After that, on the thread that wanted it.
    virtual void wasComputed() {}

    Work work;
    VirtualTime due = 0;
    std::uint64_t number = 0;
    bool isComputed = false;
  };

  // `arenaBytes`: what a gradient takes. The workbench outlives this.
  WorkQueue(Workbench& workbench, std::size_t arenaBytes) : workbench_(workbench), arenaBytes_(arenaBytes) {}

  void add(const std::shared_ptr<Job>& job);
  void remove(const std::shared_ptr<Job>& job) { pending_.erase(job); }
  // This one is needed now, and those that are due next soon.
  void require(const std::shared_ptr<Job>& job);

 private:
  struct Sooner {
    bool operator()(const std::shared_ptr<Job>& a, const std::shared_ptr<Job>& b) const {
      return a->due != b->due ? a->due < b->due : a->number < b->number;
    }
  };
  std::size_t computedAtOnce() const;

  Workbench& workbench_;
  std::size_t arenaBytes_;
  std::set<std::shared_ptr<Job>, Sooner> pending_;  // not computed yet
  std::uint64_t last_ = 0;
};

}  // namespace cohort
