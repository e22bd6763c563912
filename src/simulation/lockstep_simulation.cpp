#include "simulation/lockstep_simulation.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

LockstepSimulation::LockstepSimulation(std::unique_ptr<LockstepRule> rule, const VirtualPlace& place,
                                       int grains, Step target, std::uint64_t arenaBytes,
                                       Workbench& workbench)
    : rule_(std::move(rule)),
      cluster_(place),
      tree_(grains),
      target_(target),
      arenaBytes_(arenaBytes),
      workbench_(workbench),
      workers_(static_cast<std::size_t>(place.workers)) {
  for (int worker = 0; worker < place.workers; ++worker)
    workers_[static_cast<std::size_t>(worker)].next = cluster_.times.nextOutage(worker, 0, 0);
}

std::optional<VirtualRun::Progress> LockstepSimulation::advance() {
  if (done_ == target_ || (isHalted_ && isCommon_)) return std::nullopt;
  const Step step = done_;
  const LossSum loss = compute(step);
  for (int worker = 0; worker < cluster_.place.workers; ++worker) passTime(worker, step);
  isCommon_ = rule_->meetsAfter(step);
  if (isCommon_) meet(step);
  for (const Worker& worker : workers_) now_ = std::max(now_, worker.clock);
  ++done_;
  cluster_.hasDone();
  return Progress{.done = done_, .loss = loss, .isCommon = isCommon_};
}

// For real; as many at once as there is room for.
LossSum LockstepSimulation::compute(Step step) {
  std::vector<std::optional<LossSum>> losses(static_cast<std::size_t>(tree_.node(0).grains.count()));
  std::vector<Workbench::Task> tasks;
  for (int worker = 0; worker < cluster_.place.workers; ++worker) {
    const GrainRange grains = rule_->grainsOf(worker);
    Workbench::Task task{.work = {step, grains},
                         .isAlone = rule_->isAlone(),
                         .weights = {rule_->weightsOf(worker)},
                         .done = {}};
    task.done = [this, worker, step, grains, &losses](const Workbench::Result& result) {
      for (std::size_t i = 0; i < result.losses.size(); ++i)
        losses[static_cast<std::size_t>(grains.first) + i] = result.losses[i];
      rule_->take(worker, step, result);
    };
    tasks.push_back(std::move(task));
  }
  workbench_.compute(tasks);
  return sumOfLosses(tree_, losses);
}

VirtualTime LockstepSimulation::comeBack(int index, VirtualTime from) {
  Worker& worker = workers_[static_cast<std::size_t>(index)];
  while (worker.next && worker.next->begin <= from) {
    const WorkTimes::Outage outage = *worker.next;
    if (outage.end == kNever) {
      throw UsageError(fmt::format(
          "worker {} fails at {:.3f} virtual seconds and never comes back, and without a center all need "
          "every worker; "
          "give its failure a 'back' in {}, or use --servers 1",
          index, secondsOf(outage.begin), cluster_.place.source));
    }
    ++worker.failures;
    ++cluster_.counts.failures;
    cluster_.tally(index).away += outage.end - outage.begin;
    worker.next = cluster_.times.nextOutage(index, outage.end, worker.failures);
    from = std::max(from, outage.end);
  }
  return from;
}

void LockstepSimulation::passTime(int index, Step step) {
  Worker& worker = workers_[static_cast<std::size_t>(index)];
  VirtualCluster::Tally& tally = cluster_.tally(index);
  const WorkTimes::Grains grains{.count = rule_->grainsOf(index).count(),
                                 .samples = cluster_.place.grainSamples};
  for (;;) {
    worker.clock = comeBack(index, worker.clock);
    const VirtualTime takes = cluster_.times.compute(index, step, grains, worker.clock);
    if (!worker.next || worker.next->begin > worker.clock + takes) {
      worker.clock += takes;
      tally.computing += takes;
      ++tally.works;
      return;
    }
    cluster_.lose(index);
    worker.clock = comeBack(index, worker.next->begin);
  }
}

void LockstepSimulation::meet(Step step) {
  VirtualTime begins = 0;
  for (int index = 0; index < cluster_.place.workers; ++index)
    begins = std::max(begins, workers_[static_cast<std::size_t>(index)].clock);
  // Who fails while it waits is waited for.
  for (bool isAgain = true; isAgain;) {
    isAgain = false;
    for (int index = 0; index < cluster_.place.workers; ++index) {
      const VirtualTime there = comeBack(index, begins);
      isAgain |= there > begins;
      begins = there;
    }
  }
  const VirtualTime takes = cluster_.network.ringTime(cluster_.places.workers, arenaBytes_);
  const auto count = static_cast<std::uint64_t>(cluster_.place.workers);
  cluster_.network.count(2 * (count - 1) * arenaBytes_);  // N workers, each (N - 1)/N of them twice
  for (int index = 0; index < cluster_.place.workers; ++index) {
    Worker& worker = workers_[static_cast<std::size_t>(index)];
    cluster_.tally(index).waiting += begins - worker.clock;
    worker.clock = begins + takes;
  }
  rule_->meet(step);
}

VirtualOutcome LockstepSimulation::outcome() const {
  VirtualOutcome all = cluster_.outcome();
  all.time = now_;
  return all;
}

}  // namespace cohort
