// One worker's computing for a center: its lanes, its grains of each work, the rule that sums them, and what it reads ahead. The same for a
// worker that is a member of the center by itself, the first one of a group, and the others of it. Private to train.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "center/client.h"
#include "data/prefetch.h"
#include "sync/center_worker.h"
#include "sync/exchange_steps.h"
#include "sync/group_orders.h"
#include "train/run_setup.h"
#include "train/trainer.h"
#include "train/worker_share.h"

namespace cohort {

class CenterComputer {
 public:
  // `place.workers` are its group. Sizes that the configuration left open are filled in. All outlive this.
  CenterComputer(const RunContext& context, RunConfig& config, const WorkerPlace& place);

  const RunData& data() const { return data_; }
  Lanes& lanes() { return lanes_; }
  Model& model() { return *model_; }
  const ParameterLayout& layout() const { return model_->layout(); }
  int threads() const { return threadsOf(config_, place_); }
  std::int64_t samples() const { return data_.train->size(); }

  // Makes the rule. `center` is null on a group's other workers. Where its rule has weights of its own, it computes with these, otherwise with
  // `weights`, or with a copy where there are none.
  void begin(CenterClient* center, const RunContext& context, std::span<float> weights);
  bool exchanges() const { return own_ != nullptr; }
  std::span<float> weights() { return weights_; }

  // Once, before the first step.
  void prepare();
  // Of a work that this worker's group was given; `following` is the next one, where it is known.
  StepResult compute(const Work& work, bool isBeginning, const std::optional<Work>& following,
                     std::span<float> gradients = {});
  // What was read ahead is another step's.
  void forgetPlans();

  GroupOrders& orders() { return *orders_; }
  bool renewsWeights() { return rule_->renewsWeights(); }
  // Of the lanes, and all of them, as a share of one.
  TimeShares times() const;

 private:
  int laneCount() const;
  std::unique_ptr<CenterWorker> makeRule(CenterClient* center);
  void plan(const Work& work);
  std::vector<Prefetcher::LaneGrains> laneGrains(const Work& work) const;

  const RunConfig& config_;
  WorkerPlace place_;
  Channel channel_;
  RunData data_;
  GrainDivision division_;  // of a step's grains, in the group
  Lanes lanes_;
  std::unique_ptr<Model> model_;
  WorkerShare share_;
  BatchSource batches_;
  std::unique_ptr<OwnState> own_;  // nothing: its weights are the center's
  FloatBuffer copy_;               // of the center's weights, where nobody else has one here
  std::span<float> weights_;
  std::unique_ptr<CenterWorker> rule_;
  std::optional<GroupOrders> orders_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<Work> planned_;  // the last that the prefetcher knows
};

}  // namespace cohort
