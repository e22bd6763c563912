#include "sync/center_steps.h"

#include <algorithm>

namespace cohort {

CenterSteps::CenterSteps(CenterClient& center, const ParameterLayout& layout, int grains, int lanes)
    : center_(center), layout_(layout), lanes_(lanes), tree_(grains), plan_(layout, 1) {}

void CenterSteps::take(const Work& work, bool /*isBeginning*/) {
  const bool isOther = work.grains != work_.grains || !sum_;
  work_ = work;
  if (!isOther) return;
  sum_.reset();  // before the next takes its memory
  sum_ = std::make_shared<TreeSum>(
      layout_, tree_, work.grains, lanes_,
      [this](int node, PieceIndex piece, std::span<float>) { finished(node, piece); });
  nodes_ = tree_.cover(work.grains);
  missing_ = std::vector<std::atomic<int>>(nodes_.size() * static_cast<std::size_t>(plan_.count()));
  losses_.resize(static_cast<std::size_t>(work.grains.count()));
}

void CenterSteps::beginStep(Step, Wishes) {
  for (std::size_t i = 0; i < missing_.size(); ++i)
    missing_[i] = plan_.piecesIn(static_cast<int>(i % static_cast<std::size_t>(plan_.count())));
}

void CenterSteps::reportLoss(GrainIndex grain, const LossSum& loss) {
  losses_[static_cast<std::size_t>(grain - work_.grains.first)] = loss;
}

// Whoever completes a bucket sends it.
void CenterSteps::finished(int node, PieceIndex piece) {
  const auto place = static_cast<std::size_t>(std::ranges::find(nodes_, node) - nodes_.begin());
  const BucketPlan::Range buckets = plan_.bucketsOf(piece);
  for (int bucket = buckets.first; bucket < buckets.last; ++bucket) {
    std::atomic<int>& missing =
        missing_[place * static_cast<std::size_t>(plan_.count()) + static_cast<std::size_t>(bucket)];
    if (missing.fetch_sub(1, std::memory_order_acq_rel) == 1)
      center_.push(node, plan_.bucket(bucket), sum_->arenaOf(node), sum_);
  }
}

StepResult CenterSteps::finishStep() {
  if (!kept_.empty()) {
    // Several nodes are parts of a step's gradient: the largest is shown.
    const auto largest =
        std::ranges::max_element(nodes_, {}, [this](int node) { return tree_.node(node).grains.count(); });
    std::ranges::copy(sum_->arenaOf(*largest), kept_.begin());
  }
  center_.finish(losses_);
  StepResult result;
  for (const LossSum& loss : losses_) result.loss += loss;
  return result;
}

}  // namespace cohort
