// One worker of a center: computes what it is given, and sends each bucket of a gradient as soon as it is complete, while earlier
// layers still compute. The center adds, applies and answers with new weights.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "center/client.h"
#include "sync/bucket_plan.h"
#include "sync/center_worker.h"
#include "sync/tree_sum.h"

namespace cohort {

class CenterSteps : public CenterWorker {
 public:
  // Everything outlives this.
  CenterSteps(CenterClient& center, const ParameterLayout& layout, int grains, int lanes);

  void take(const Work& work, bool isBeginning) override;

  void beginStep(Step step, Wishes wishes) override;
  GrainRange grainsOf(int lane) const override { return shareOf(work_.grains, {lane, lanes_}); }
  void reportLoss(GrainIndex grain, const LossSum& loss) override;
  GradientSink& sinkFor(GrainIndex grain) override { return sum_->sinkFor(grain); }
  // The loss of this worker's grains alone.
  StepResult finishStep() override;
  // Of its own grains: their sum, where they are a whole step's.
  void keepGradients(std::span<float> arena) override { kept_ = arena; }
  // The center's, not this worker's.
  double updateSeconds() const override { return 0; }

 private:
  void finished(int node, PieceIndex piece);

  CenterClient& center_;
  const ParameterLayout& layout_;
  int lanes_;
  GrainTree tree_;
  BucketPlan plan_;
  Work work_;
  std::shared_ptr<TreeSum> sum_;           // as long as something of it is sent
  std::vector<int> nodes_;                 // of the work's grains
  std::vector<std::atomic<int>> missing_;  // pieces, by node and bucket
  std::vector<LossSum> losses_;            // by grain of the work
  std::span<float> kept_;
};

}  // namespace cohort
