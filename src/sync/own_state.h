// What a worker has whose rule is an ExchangeRule: weights, an optimizer and a rule of its own. The same for workers of a real run, of one
// that is replayed, and in virtual time. Of a group, each worker has all weights, the optimizer of its slices, and the first one the
// rule. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/float_buffer.h"
#include "optim/shard.h"
#include "sync/exchange_rule.h"

namespace cohort {

class OwnState {
 public:
  using MakeRule = std::function<std::unique_ptr<ExchangeRule>()>;

  // The layout outlives this. begin() comes first. Without `slices` it has all.
  OwnState(const ParameterLayout& layout, const ShardOptions& options, MakeRule makeRule,
           std::vector<ArenaRange> slices = {});
  OwnState(const OwnState&) = delete;
  OwnState& operator=(const OwnState&) = delete;

  // It comes, or comes again, and weights() have the center's: of what was before it, nothing is left.
  // `worker` is a number that no other worker has; rules without chance need none.
  void begin(std::uint64_t worker = 0);

  std::span<float> weights() { return weights_.span(); }
  std::span<Shard> shards() { return shards_; }
  // A step that was made with these weights and this shard. Whether there is an exchange after it.
  bool finishStep(double loss) { return rule_->isDue({.count = ++steps_, .loss = loss}); }
  // The same, of a gradient of the whole arena, where all slices are here.
  bool step(Step step, std::span<const float> gradient, double loss);
  // `change` is what is added to the center's.
  void exchange(std::span<const float> center, std::span<float> change);
  // Gossip: what is sent.
  void writeLetter(std::span<float> letter) { exchange({}, letter); }
  // Gossip: what has come for a stretch of the arena, and its part of all that this worker has then; 0: nothing.
  void readMail(const ArenaRange& range, std::span<const float> mail, double part);

 private:
  void makeShards();

  const ParameterLayout& layout_;
  ShardOptions options_;
  MakeRule makeRule_;
  std::vector<ArenaRange> slices_;
  FloatBuffer weights_;
  std::vector<Shard> shards_;  // by slice
  std::unique_ptr<ExchangeRule> rule_;
  Step steps_ = 0;
};

}  // namespace cohort
