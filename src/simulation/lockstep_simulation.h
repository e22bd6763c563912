// Rules without a center in virtual time: every worker computes its part of every step, and at some steps all meet.
//
// A meeting begins when the last worker has come, and takes as long as a ring all-reduce of the whole arena (VirtualNetwork::ringTime); it moves
// 2(N - 1)/N of the arena's bytes from every worker. A worker that fails loses the step that it computes, and computes it again when it is
// back; all wait for it.
#pragma once

#include <memory>
#include <mutex>

#include "center/shard_store.h"
#include "simulation/virtual_run.h"
#include "sync/outer_step.h"

namespace cohort {

// What workers do with their gradients. Time is not its business.
class LockstepRule {
 public:
  virtual ~LockstepRule() = default;
  virtual GrainRange grainsOf(int worker) const = 0;
  // Whether it has weights of its own, and so sums its gradient alone.
  virtual bool isAlone() const = 0;
  virtual std::span<const float> weightsOf(int worker) = 0;
  // Its gradient of this step; on any thread, of several workers at once.
  virtual void take(int worker, Step step, const Workbench::Result& result) = 0;
  // Whether all meet after this step: then the weights are the run's.
  virtual bool meetsAfter(Step step) const = 0;
  virtual void meet(Step step) = 0;
  virtual void copyState(std::span<float> weights, std::span<const Shard::Slot> slots) = 0;
};

// What the run begins with.
struct VirtualStart {
  const ParameterLayout& layout;
  ShardOptions options;
  std::span<const float> weights;
  std::span<const Shard::Slot> slots;
};

// Bulk-synchronous: one sum of all grains, one update, in every step.
std::unique_ptr<LockstepRule> sharedWeights(const VirtualStart& start, int workers);

struct OwnWeightsOptions {
  int workers = 1;
  Step every = 1;  // steps between averagings
  Step last = 0;   // the run's last step, after which there always is one
  double outerRate = 1;
  double outerMomentum = 0;
};
// Local SGD and DiLoCo: what LocalSteps does, to the bit. Grains divide equally among the workers.
std::unique_ptr<LockstepRule> ownWeights(const VirtualStart& start, const OwnWeightsOptions& options);

class LockstepSimulation : public VirtualRun {
 public:
  // The workbench outlives this.
  LockstepSimulation(std::unique_ptr<LockstepRule> rule, const VirtualPlace& place, int grains, Step target,
                     std::uint64_t arenaBytes, Workbench& workbench);

  std::optional<Progress> advance() override;
  void halt() override { isHalted_ = true; }
  VirtualTime now() const override { return now_; }
  void copyState(std::span<float> weights, std::span<const Shard::Slot> slots) override {
    rule_->copyState(weights, slots);
  }
  VirtualOutcome outcome() const override;

 private:
  struct Worker {
    VirtualTime clock = 0;
    int failures = 0;
    std::optional<WorkTimes::Outage> next;  // outage
  };
  LossSum compute(Step step);
  void passTime(int index, Step step);
  // Later, where it is away just then.
  VirtualTime comeBack(int index, VirtualTime from);
  void meet(Step step);

  std::unique_ptr<LockstepRule> rule_;
  VirtualCluster cluster_;
  GrainTree tree_;
  Step target_;
  std::uint64_t arenaBytes_;
  Workbench& workbench_;
  std::vector<Worker> workers_;
  VirtualTime now_ = 0;
  Step done_ = 0;
  bool isCommon_ = true;
  bool isHalted_ = false;
};

}  // namespace cohort
