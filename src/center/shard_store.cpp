#include "center/shard_store.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace cohort {

ShardStore::ShardStore(const ParameterLayout& layout, const ShardOptions& options, Acceptance acceptance,
                       bool scaleRate, Application application)
    : tree_(options.grains),
      acceptance_(acceptance),
      scaleRate_(scaleRate),
      application_(application),
      pool_(std::make_shared<BufferPool>(options.end - options.begin)),
      weights_(pool_),
      shard_(layout, options, weights_.span()),
      sums_(tree_, acceptance == Acceptance::OnCommit,
            [this](FloatBuffer buffer) { freeBuffer(std::move(buffer)); }) {}

namespace {

ShardOptions shardOptions(const CenterSetup& setup, const ArenaRange& slice) {
  return {.optimizer = setup.optimizer,
          .schedule = parseSchedule(setup.schedule, setup.epoch),
          .grains = setup.grains,
          .begin = slice.begin,
          .end = slice.end};
}

}  // namespace

ShardStore::ShardStore(const ParameterLayout& layout, const CenterSetup& setup, const ArenaRange& slice)
    : ShardStore(layout, shardOptions(setup, slice), acceptanceOf(setup.rule), setup.rule.scaleRate,
                 applicationOf(setup.rule)) {
  if (application_ == Application::Mail) post_.emplace(setup.rule.seed, pool_);
}

std::shared_ptr<const FloatBuffer> ShardStore::copyOf(std::span<const float> values) {
  FloatBuffer copy = pool_->take();
  std::ranges::copy(values, copy.data());
  return pool_->share(std::move(copy));
}

bool ShardStore::push(const Origin& origin, FloatBuffer gradient) {
  COHORT_CHECK(gradient.size() == weights_.size(), "a gradient is the whole slice's");
  COHORT_CHECK(application_ != Application::Mail, "letters come with visits");
  if (acceptance_ == Acceptance::AtOnce) {
    if (application_ == Application::Optimize && !applied_.insert(origin.step)) {
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

void ShardStore::visit(const GossipVisit& visit, FloatBuffer letter) {
  const Clock::time_point start = Clock::now();
  if (letter.size() > 0) takeWeightsBack();
  post_->visit(visit, ++version_, std::move(letter), weights_.span());
  updateSeconds_ += secondsSince(start);
}

bool ShardStore::leave(OwnerId worker) {
  if (!post_ || !post_->leave(worker)) return false;
  ++version_;
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
  takeWeightsBack();
  if (application_ == Application::Add) {
    const std::span<float> weights = weights_.span();
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += gradient.span()[i];
  } else {
    const double rate = scaleRate_ && staleness > 1 ? 1 / static_cast<double>(staleness) : 1;
    shard_.update(shard_.begin(), gradient.span(), version_, rate);
  }
  ++version_;
  freeBuffer(std::move(gradient));
  const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(staleness)));
  if (bin >= stalenessCounts_.size()) stalenessCounts_.resize(bin + 1);
  ++stalenessCounts_[bin];
  updateSeconds_ += secondsSince(start);
}

// Somebody may still read them.
void ShardStore::takeWeightsBack() {
  if (weights_.takeBack()) shard_.moveTo(weights_.span());
}

void ShardStore::restore(Step version, StepSet applied) {
  version_ = version;
  applied_ = std::move(applied);
  sums_.clear();
}

}  // namespace cohort
