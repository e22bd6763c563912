#include "train/division.h"

#include <algorithm>
#include <limits>

namespace cohort {

Rounds::Rounds(int grains, const Division& division)
    : group_(shareOf({0, grains}, {division.group(), division.mesh.data})),
      members_(division.mesh.model),
      member_(division.member()),
      count_(0) {
  for (int group = 0; group < division.mesh.data; ++group) {
    const int own = shareOf({0, grains}, {group, division.mesh.data}).count();
    count_ = std::max(count_, (own + members_ - 1) / members_);
  }
}

GrainRange Rounds::grainsOf(int round) const {
  const GrainIndex first = group_.first + round * members_;
  return {std::min(first, group_.last), std::min(first + members_, group_.last)};
}

RoundBatches::RoundBatches(const BatchSource& source, const Rounds& rounds,
                           const std::vector<GrainRange>& lanes, bool isRound, Step firstStep, int threads)
    : rounds_(rounds), isRound_(isRound), batchSize_(source.batchSize()), grainSize_(source.grainSize()) {
  const auto samples = static_cast<std::size_t>(grainSize_ * (isRound ? rounds.members() : 1));
  const std::size_t pixels = source.makeBuffer().batch().images.size() / static_cast<std::size_t>(grainSize_);
  std::vector<Prefetcher::LaneGrains> grains;
  for (const GrainRange& lane : lanes) {
    Prefetcher::LaneGrains& mine = grains.emplace_back();
    for (int round = lane.first; round < lane.last; ++round) {
      const GrainRange all = rounds.grainsOf(round);
      if (isRound) {
        for (GrainIndex grain = all.first; grain < all.last; ++grain) mine.push_back(grain);
      } else if (rounds.member() < all.count()) {
        mine.push_back(all.first + rounds.member());
      }
    }
    Room& room = rooms_.emplace_back();
    room.images = FloatBuffer(samples * pixels);
    std::ranges::fill(room.images.span(), 0.0f);
    room.labels.assign(samples, kIgnoredLabel);
  }
  prefetcher_ = std::make_unique<Prefetcher>(source, std::move(grains), firstStep, threads);
}

Batch RoundBatches::next(int lane, Step step, int round) {
  const std::int64_t position = step * batchSize_ + rounds_.grainsOf(round).first * grainSize_;
  return isRound_ ? wholeRound(lane, position, round) : ownGrain(lane, position, round);
}

Batch RoundBatches::ownGrain(int lane, std::int64_t position, int round) {
  const int grains = rounds_.grainsOf(round).count();
  const Room& room = rooms_[static_cast<std::size_t>(lane)];
  Batch batch{.images = room.images.span(),
              .labels = room.labels,
              .position = position + rounds_.member() * grainSize_,
              .globalSize = batchSize_};
  if (rounds_.member() < grains) batch = prefetcher_->next(lane);
  batch.grains = grains;
  return batch;
}

Batch RoundBatches::wholeRound(int lane, std::int64_t position, int round) {
  const int grains = rounds_.grainsOf(round).count();
  Room& room = rooms_[static_cast<std::size_t>(lane)];
  const std::span<float> images = room.images.span();
  const std::size_t grainFloats = images.size() / static_cast<std::size_t>(rounds_.members());
  for (std::size_t i = 0; i < static_cast<std::size_t>(rounds_.members()); ++i) {
    const std::span<float> pixels = images.subspan(i * grainFloats, grainFloats);
    const auto labels = room.labels.begin() + static_cast<std::ptrdiff_t>(i) * grainSize_;
    if (static_cast<int>(i) < grains) {
      const Batch grain = prefetcher_->next(lane);
      std::ranges::copy(grain.images, pixels.begin());
      std::ranges::copy(grain.labels, labels);
    } else {
      std::ranges::fill(pixels, 0.0f);
      std::fill_n(labels, grainSize_, kIgnoredLabel);
    }
  }
  return {.images = images,
          .labels = room.labels,
          .position = position,
          .globalSize = batchSize_,
          .grains = grains};
}

}  // namespace cohort
