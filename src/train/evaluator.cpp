#include "train/evaluator.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace cohort {

Evaluator::Evaluator(const Channel& workers, const Ownership& owned, Model& model, const TrainingState& state,
                     const Dataset& dataset, int tag)
    : workers_(workers), owned_(owned), model_(model), state_(state), dataset_(dataset), tag_(tag) {}

// A moving average is in the workers' shards.
std::span<const float> Evaluator::weights() {
  Communicator& workers = workers_.workers();
  if (workers.size() == 1) return state_.shards.front().evaluationWeights();
  if (std::ranges::find(state_.slots, "average") == state_.slots.end()) return state_.weights.span();
  if (!gather_) {
    averages_ = FloatBuffer(state_.layout.size());
    gather_ = std::make_unique<SliceGather>(workers, owned_, averages_.span(), tag_);
  }
  for (const Shard& shard : state_.shards) {
    std::ranges::copy(shard.evaluationWeights(), averages_.data() + shard.begin());
  }
  gather_->run("the averaged weights");
  return averages_.span();
}

// The first worker adds all grains' sums in index order.
LossSum Evaluator::run() {
  const Communicator& workers = workers_.workers();
  const std::vector<LossSum> own = model_.evaluate(dataset_, weights(), {workers.rank(), workers.size()});
  const std::span<const std::byte> bytes = std::as_bytes(std::span(own));
  LossSum total;
  for (const std::string& share : workers_.gather({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                                  "its part of an evaluation")) {
    for (std::size_t at = 0; at < share.size(); at += sizeof(LossSum)) {
      LossSum sum;
      std::memcpy(&sum, share.data() + at, sizeof(sum));
      total += sum;
    }
  }
  return total;
}

}  // namespace cohort
