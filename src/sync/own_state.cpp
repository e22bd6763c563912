#include "sync/own_state.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "center/gossip_post.h"

namespace cohort {

OwnState::OwnState(const ParameterLayout& layout, const ShardOptions& options, MakeRule makeRule,
                   std::vector<ArenaRange> slices)
    : layout_(layout),
      options_(options),
      makeRule_(std::move(makeRule)),
      slices_(std::move(slices)),
      weights_(layout.size()) {
  if (slices_.empty()) slices_.push_back({0, layout.size()});
  makeShards();
}

void OwnState::makeShards() {
  std::vector<Shard> made;
  for (const ArenaRange& slice : slices_) {
    options_.begin = slice.begin;
    options_.end = slice.end;
    made.emplace_back(layout_, options_, weights_.span().subspan(slice.begin, slice.size()));
  }
  // Others keep pointing to them.
  if (shards_.empty()) {
    shards_ = std::move(made);
  } else {
    std::ranges::move(made, shards_.begin());
  }
}

void OwnState::begin(std::uint64_t worker) {
  makeShards();
  rule_ = makeRule_();
  rule_->begin(worker);
  steps_ = 0;
}

bool OwnState::step(Step step, std::span<const float> gradient, double loss) {
  COHORT_CHECK(shards_.size() == 1, "a gradient of all weights needs all of them");
  shards_.front().update(0, gradient, step);
  return finishStep(loss);
}

void OwnState::exchange(std::span<const float> center, std::span<float> change) {
  rule_->exchange(weights_.span(), center, change);
}

void OwnState::readMail(const ArenaRange& range, std::span<const float> mail, double part) {
  if (part > 0) mix(weights_.span().subspan(range.begin, range.size()), mail, part);
}

}  // namespace cohort
