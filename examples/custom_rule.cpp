// A synchronisation rule of one's own, with all that Cohort does for a run: workers on one machine or many that come, go and die, servers
// that come back, checkpoints, evaluation, reports.
//
//   custom_rule train --network mnist-fc --workers 2 --sync falling-loss
//
// Workers step alone, and exchange with the center only when they have something to tell: when the loss, smoothed over some steps, has
// fallen by a tenth since the last time. docs/custom-rules.md says what to keep in mind.
#include <memory>

#include <cohort.h>

namespace {

using namespace cohort;

class FallingLoss : public ExchangeRule {
 public:
  explicit FallingLoss(const ExchangeSettings& settings) : alpha_(static_cast<float>(settings.alpha)) {}

  bool isDue(const LocalStep& step) override {
    constexpr double kWeight = 0.1;  // of a new loss, in the smoothed one
    smoothed_ = step.count == 1 ? step.loss : (1 - kWeight) * smoothed_ + kWeight * step.loss;
    if (step.count == 1) told_ = smoothed_;
    if (smoothed_ > 0.9 * told_) return false;
    told_ = smoothed_;
    return true;
  }

  // As in elastic averaging: both move towards each other.
  void exchange(std::span<float> own, std::span<const float> center, std::span<float> change) override {
    for (std::size_t i = 0; i < own.size(); ++i) {
      change[i] = alpha_ * (own[i] - center[i]);
      own[i] -= change[i];
    }
  }

 private:
  float alpha_;
  double smoothed_ = 0;
  double told_ = 0;  // the smoothed loss at the last exchange
};

}  // namespace

int main(int argc, char** argv) {
  ExchangeRules rules = builtinExchangeRules();
  rules.add("falling-loss",
            [](const ExchangeSettings& settings) { return std::make_unique<FallingLoss>(settings); });
  return run(argc, argv, builtinNetworks(), builtinDatasets(), rules);
}
