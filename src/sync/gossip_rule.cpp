#include "sync/gossip_rule.h"

#include <algorithm>

#include "base/hash.h"
#include "base/philox.h"

namespace cohort {
namespace {

class GossipRule : public ExchangeRule {
 public:
  GossipRule(double probability, std::uint64_t seed)
      : probability_(probability), key_(philoxKey(seed, hashName("gossip letter"))) {}

  void begin(std::uint64_t worker) override { worker_ = worker; }

  bool isDue(const LocalStep& step) override {
    const auto count = static_cast<std::uint64_t>(step.count);
    const PhiloxBlock chance =
        philox(key_, {static_cast<std::uint32_t>(worker_), static_cast<std::uint32_t>(worker_ >> 32U),
                      static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(count >> 32U)});
    return uniformFloat(chance[0]) < probability_;
  }

  void exchange(std::span<float> own, std::span<const float> /*center*/, std::span<float> change) override {
    std::ranges::copy(own, change.begin());
  }

 private:
  double probability_;
  PhiloxKey key_;
  std::uint64_t worker_ = 0;
};

}  // namespace

std::unique_ptr<ExchangeRule> gossipRule(double probability, std::uint64_t seed) {
  return std::make_unique<GossipRule>(probability, seed);
}

}  // namespace cohort
