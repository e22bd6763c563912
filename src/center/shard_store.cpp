#include "center/shard_store.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace cohort {

ShardStore::ShardStore(const ParameterLayout& layout, const ShardOptions& options, Acceptance acceptance,
                       bool scaleRate)
    : tree_(options.grains),
      acceptance_(acceptance),
      scaleRate_(scaleRate),
      pool_(std::make_shared<BufferPool>(options.end - options.begin)),
      weights_(pool_),
      shard_(layout, options, weights_.span()),
      sums_(tree_, acceptance == Acceptance::OnCommit,
            [this](FloatBuffer buffer) { freeBuffer(std::move(buffer)); }) {}

std::shared_ptr<const FloatBuffer> ShardStore::copyOf(std::span<const float> values) {
  FloatBuffer copy = pool_->take();
  std::ranges::copy(values, copy.data());
  return pool_->share(std::move(copy));
}

bool ShardStore::push(const Origin& origin, FloatBuffer gradient) {
  COHORT_CHECK(gradient.size() == weights_.size(), "a gradient is the whole slice's");
  if (acceptance_ == Acceptance::AtOnce) {
    if (!applied_.insert(origin.step)) {
      freeBuffer(std::move(gradient));
      return false;
    }
    update(std::move(gradient), std::max<Step>(0, version_ - origin.basis));
    return true;
  }
  COHORT_CHECK(origin.step <= version_, "a gradient is computed with the weights of the step before");
  if (origin.step < version_) {
    freeBuffer(std::move(gradient));
    return false;
  }
  if (!sums_.add(origin.node, std::move(gradient))) return false;
  if (acceptance_ == Acceptance::WhenComplete && sums_.isComplete()) {
    int grains = 0;
    update(sums_.take(grains), 0);
  }
  return true;
}

bool ShardStore::hasCome(Step step, const GrainRange& grains) const {
  if (acceptance_ == Acceptance::AtOnce) return applied_.contains(step);
  if (step != version_) return step < version_;
  return std::ranges::all_of(tree_.cover(grains), [this](int node) { return sums_.covers(node); });
}

bool ShardStore::commit(Step step, std::span<const GrainRange> grains) {
  COHORT_CHECK(acceptance_ == Acceptance::OnCommit, "other gradients need no commit");
  if (step != version_) return false;
  if (!std::ranges::all_of(grains, [&](const GrainRange& range) { return hasCome(step, range); }))
    return false;
  sums_.keepOnly(grains);
  int count = 0;
  FloatBuffer total = sums_.take(count);
  const int all = tree_.node(0).grains.count();
  if (count != all) {
    // A gradient is the mean over the whole batch; of a part, it is that part's mean.
    const float scale = static_cast<float>(all) / static_cast<float>(count);
    for (float& value : total.span()) value *= scale;
  }
  update(std::move(total), 0);
  return true;
}

void ShardStore::update(FloatBuffer gradient, Step staleness) {
  const Clock::time_point start = Clock::now();
  if (weights_.takeBack()) shard_.moveTo(weights_.span());
  const double rate = scaleRate_ && staleness > 1 ? 1 / static_cast<double>(staleness) : 1;
  shard_.update(shard_.begin(), gradient.span(), version_, rate);
  ++version_;
  freeBuffer(std::move(gradient));
  const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(staleness)));
  if (bin >= stalenessCounts_.size()) stalenessCounts_.resize(bin + 1);
  ++stalenessCounts_[bin];
  updateSeconds_ += secondsSince(start);
}

void ShardStore::restore(Step version, StepSet applied) {
  version_ = version;
  applied_ = std::move(applied);
  sums_.clear();
}

}  // namespace cohort
