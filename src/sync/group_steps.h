// One worker of a group with the center's weights. The group's ranks compute the grains of one step together; their sums meet in the
// fixed tree, each rank adding its slices, and go to the first worker, which sends each slice to the center as soon as it has it, while
// earlier layers still compute. So the center is sent the same bits as by a worker that computes all grains alone.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/float_buffer.h"
#include "base/grain_division.h"
#include "center/client.h"
#include "comm/communicator.h"
#include "sync/bucket_plan.h"
#include "sync/center_worker.h"
#include "sync/shard_exchange.h"
#include "sync/step_agreement.h"
#include "sync/tree_sum.h"

namespace cohort {

class GroupSteps : public CenterWorker {
 public:
  // `center` is the first worker's; null on the others. Everything outlives this.
  GroupSteps(CenterClient* center, Communicator& group, const ParameterLayout& layout, const BucketPlan& plan,
             const GrainDivision& division, int lanes);

  // All grains of a step.
  void take(const Work&, bool) override {}
  GrainRange shareIn(const Work&) const override { return own_; }

  void beginStep(Step step, Wishes wishes) override;
  GrainRange grainsOf(int lane) const override { return shareOf(own_, {lane, lanes_}); }
  void reportLoss(GrainIndex grain, const LossSum& loss) override { agreement_.report(grain, loss); }
  GradientSink& sinkFor(GrainIndex grain) override { return sum_.sinkFor(grain); }
  StepResult finishStep() override;
  // The step's, on the first worker.
  void keepGradients(std::span<float> arena) override { kept_ = arena; }
  // The center's, not this worker's.
  double updateSeconds() const override { return 0; }

 private:
  CenterClient* center_;
  int lanes_;
  Step step_ = 0;
  GrainTree tree_;
  GrainRange own_;
  StepAgreement agreement_;
  TreeSum sum_;
  std::shared_ptr<FloatBuffer> total_;  // over all grains; as long as something of it is sent
  ShardExchange exchange_;
  std::span<float> kept_;
};

}  // namespace cohort
