#include "sync/group_steps.h"

#include <algorithm>

#include <fmt/format.h>

#include "sync/bulk_synchronous.h"

namespace cohort {
namespace {

constexpr int kAgreementTag = 0;
constexpr int kExchangeTag = 2;
constexpr int kFirst = 0;
constexpr int kRoot = 0;

}  // namespace

GroupSteps::GroupSteps(CenterClient* center, Communicator& group, const ParameterLayout& layout,
                       const BucketPlan& plan, const GrainDivision& division, int lanes)
    : center_(center),
      lanes_(lanes),
      tree_(division.grains()),
      own_(division.of(group.rank())),
      agreement_(group, tree_, division, kAgreementTag),
      sum_(layout, tree_, own_, lanes,
           [this](int node, PieceIndex piece, std::span<const float>) { exchange_.finished(node, piece); }),
      total_(std::make_shared<FloatBuffer>(layout.size())),
      exchange_(
          group, plan,
          {.tree = tree_,
           .nodesOf = coversOf(tree_, division),
           .arenas = arenasOf(sum_, tree_.cover(own_)),
           .weights = total_->span(),
           .apply = [this](std::size_t offset,
                           std::span<const float> sum) { std::ranges::copy(sum, total_->data() + offset); },
           .receiver = kFirst,
           .arrived =
               [this](const ArenaRange& range) { center_->push(kRoot, range, total_->span(), total_); }},
          kExchangeTag) {}

void GroupSteps::beginStep(Step step, Wishes wishes) {
  step_ = step;
  agreement_.begin(wishes);
  exchange_.begin();
}

StepResult GroupSteps::finishStep() {
  exchange_.end(fmt::format("step {}", step_));
  const StepResult result = agreement_.finish();
  if (center_ == nullptr) return result;
  if (!kept_.empty()) std::ranges::copy(total_->span(), kept_.begin());
  center_->finish(agreement_.losses());
  return result;
}

}  // namespace cohort
