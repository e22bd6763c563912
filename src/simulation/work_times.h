// How long each virtual worker computes, and when it is away. Pure functions of the seed, the worker and a number: the same for every
// order in which they are asked, on every machine (no function of the C library is used whose last bit is its own choice).
//
//   time = (seconds-per-step + seconds-per-sample * samples of a grain * rounds) / speed * straggler's factor * jitter
//
// A worker has cores / workers of its host, and computes as many grains at once; rounds = grains / cores of its own, rounded up. With fewer
// cores than workers they take turns: rounds = grains * workers / cores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/batch.h"
#include "cluster/cluster_model.h"
#include "simulation/virtual_time.h"

namespace cohort {

// A number of mean 1 with this standard deviation.
double jitterFactor(const ComputeModel& model, std::uint64_t seed, int worker, Step step);
// Of mean 1, exponentially distributed.
double exponentialNumber(std::uint64_t bits);

class WorkTimes {
 public:
  WorkTimes(const ClusterModel& model, const ClusterPlaces& places, std::uint64_t seed,
            const std::string& source);

  struct Grains {
    int count = 1;
    std::int64_t samples = 1;  // of one
  };
  VirtualTime compute(int worker, Step step, const Grains& grains, VirtualTime start) const;
  bool isStraggler(int worker) const { return !of(worker).slow.empty(); }

  // [begin, end); kNever where it does not come back.
  struct Outage {
    VirtualTime begin = 0;
    VirtualTime end = kNever;
  };
  // The first that begins from `from` on, for a worker that has been there since then and failed `before` times.
  std::optional<Outage> nextOutage(int worker, VirtualTime from, int before) const;

 private:
  struct Slow {
    double factor = 1;
    VirtualTime from = 0;
    VirtualTime until = kNever;
  };
  struct Repeated {
    double mean = 0;  // seconds
    VirtualTime back = kNever;
  };
  struct Worker {
    double speed = 1;
    double cores = 1;
    std::vector<Slow> slow{};
    std::vector<Outage> outages{};
    std::vector<Repeated> repeated{};
  };
  const Worker& of(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }

  ComputeModel model_;
  std::uint64_t seed_;
  std::vector<Worker> workers_;
};

}  // namespace cohort
