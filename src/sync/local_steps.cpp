#include "sync/local_steps.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

constexpr int kAgreementTag = 0;
constexpr int kExchangeTag = 2;

std::vector<std::vector<int>> leavesOf(const GrainTree& tree) {
  std::vector<std::vector<int>> leaves(static_cast<std::size_t>(tree.node(0).grains.count()));
  for (std::size_t worker = 0; worker < leaves.size(); ++worker)
    leaves[worker] = {tree.leaf(static_cast<GrainIndex>(worker))};
  return leaves;
}

}  // namespace

LocalSteps::LocalSteps(Communicator& workers, const ParameterLayout& layout, const BucketPlan& plan,
                       std::span<Shard> shard, std::span<float> weights, std::span<float> outer, int grains,
                       int lanes, const LocalOptions& options)
    : workers_(workers),
      layout_(layout),
      shards_(shard),
      weights_(weights),
      outer_(outer),
      lanes_(lanes),
      options_(options),
      globalTree_(grains),
      own_(GrainDivision::equal(grains, workers.size()).of(workers.rank())),
      tree_(own_.count()),
      workersTree_(workers.size()),
      perWorker_(static_cast<float>(workers.size())),
      agreement_(workers, globalTree_, GrainDivision::equal(grains, workers.size()), kAgreementTag),
      sum_(layout, tree_, {0, own_.count()}, lanes,
           [this](int, PieceIndex piece, std::span<float> sum) { applyLocally(piece, sum); }),
      base_(weights.size()),
      change_(weights.size()),
      exchange_(
          workers, plan,
          {.tree = workersTree_,
           .nodesOf = leavesOf(workersTree_),
           .arenas = {change_.span()},
           .weights = weights,
           .apply = [this](std::size_t offset, std::span<const float> sum) { applyChange(offset, sum); },
           .wire = options.wire},
          kExchangeTag) {
  COHORT_CHECK(grains % workers.size() == 0, "local steps need equal parts of the batch");
  COHORT_CHECK(options.outerMomentum == 0 || outer.size() == weights.size(), "a momentum has its place");
}

void LocalSteps::beginStep(Step step, Wishes wishes) {
  step_ = step;
  // Not before: a checkpoint may have been read after this was made.
  if (!std::exchange(hasBegun_, true)) std::ranges::copy(weights_, base_.data());
  agreement_.begin(wishes);
}

// A gradient is the mean over the whole batch; a worker that steps alone needs its own samples' mean.
void LocalSteps::applyLocally(PieceIndex piece, std::span<float> sum) {
  const Piece& where = layout_.piece(piece);
  if (workers_.size() > 1 && layout_.at(where.parameter).kind == ParameterKind::Weight) {
    for (float& value : sum) value *= perWorker_;
  }
  shards_.update(where.offset, sum, step_);
}

StepResult LocalSteps::finishStep() {
  const StepResult result = agreement_.finish();
  if (isCommon(step_)) average();
  return result;
}

void LocalSteps::average() {
  if (outerStep().isNothing()) return;
  for (std::size_t i = 0; i < weights_.size(); ++i) change_.data()[i] = weights_[i] - base_.data()[i];
  // The exchange starts from what all have in common, which is also what it adds rounded changes to.
  std::ranges::copy(base_.span(), weights_.begin());
  exchange_.begin();
  const int node = workersTree_.leaf(workers_.rank());
  for (PieceIndex piece = 0; piece < static_cast<int>(layout_.pieces().size()); ++piece)
    exchange_.finished(node, piece);
  exchange_.end(fmt::format("the averaging after step {}", step_));
  std::ranges::copy(weights_, base_.data());
}

OuterStep LocalSteps::outerStep() const {
  return {.workers = workers_.size(), .rate = options_.outerRate, .momentum = options_.outerMomentum};
}

void LocalSteps::applyChange(std::size_t offset, std::span<const float> sum) {
  applyOuterStep(layout_, outerStep(), offset, sum, weights_, outer_);
}

}  // namespace cohort
