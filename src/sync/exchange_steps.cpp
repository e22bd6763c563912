#include "sync/exchange_steps.h"

namespace cohort {

ExchangeSteps::ExchangeSteps(CenterClient* center, OwnState& own, const ParameterLayout& layout,
                             const Part& part)
    : center_(center),
      own_(own),
      grains_(part.division.of(part.group.rank())),
      local_(makeBulkSynchronous(part.group, layout, part.plan, own.shards(), own.weights(), part.division,
                                 part.lanes)),
      seen_(center == nullptr ? 0 : layout.size()),
      change_(std::make_shared<FloatBuffer>(seen_.size())) {}

void ExchangeSteps::take(const Work& /*work*/, bool isBeginning) {
  if (isBeginning) own_.begin(center_ == nullptr ? 0 : center_->ownWeights());
}

StepResult ExchangeSteps::finishStep() {
  const StepResult result = local_->finishStep();
  if (center_ == nullptr) return result;
  meet(own_.finishStep(result.loss.meanLoss()));
  center_->finish(local_->losses());
  return result;
}

// Where the run was broken off meanwhile, this worker begins anew.
void ExchangeSteps::meet(bool isDue) {
  if (!isDue || !center_->fetch({{"weights", seen_.span()}})) return;
  own_.exchange(seen_.span(), change_->span());
  center_->push(0, {0, change_->size()}, change_->span(), change_);
  hasExchanged_ = true;
}

void GossipSteps::meet(bool isDue) {
  if (isDue) own().writeLetter(sent()->span());
  const auto mail = center().visit(isDue ? sent()->span() : std::span<float>(), sent(), received());
  if (!mail) return;
  for (const CenterClient::Mail& part : *mail) {
    own().readMail(part.range, received().subspan(part.range.begin, part.range.size()), part.part);
    if (part.part > 0) haveOtherWeights();
  }
}

}  // namespace cohort
