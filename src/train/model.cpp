#include "train/model.h"

#include <atomic>

#include "data/sampler.h"

namespace cohort {

std::vector<LossSum> evaluateShare(Lanes& lanes, std::span<Trainable* const> models, const Dataset& dataset,
                                   std::int64_t grainSize, Share share) {
  const EvaluationSource source(dataset, grainSize);
  const std::int64_t first = source.grains() * share.index / share.count;
  const std::int64_t last = source.grains() * (share.index + 1) / share.count;
  std::vector<LossSum> sums(static_cast<std::size_t>(last - first));
  std::atomic<std::int64_t> next = first;
  lanes.run([&](int lane) {
    Trainable& model = *models[static_cast<std::size_t>(lane)];
    model.refreshWeights({lane, lanes.count()});
    lanes.meet();
    GrainBuffer buffer = source.makeBuffer();
    for (std::int64_t grain = next++; grain < last; grain = next++) {
      source.fill(grain, buffer);
      sums[static_cast<std::size_t>(grain - first)] = model.forward(buffer.batch());
    }
  });
  return sums;
}

}  // namespace cohort
