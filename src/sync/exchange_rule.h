// Rules with weights of their own and a center: every worker steps alone, and now and then exchanges with what all share. Such a rule is
// one class that says when, and what becomes of both; it has no clock, no thread and no socket, so that the same class runs over a
// network, is replayed, and runs in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/batch.h"

namespace cohort {

class ExchangeRule {
 public:
  virtual ~ExchangeRule() = default;

  // Before all else: a number that no other worker has, for random numbers by counter.
  virtual void begin(std::uint64_t /*worker*/) {}

  // A step that this worker has made with its own weights.
  struct LocalStep {
    Step count = 0;   // how many it has made since it came: 1, 2, 3 …
    double loss = 0;  // the mean of its batch, before the step
  };
  // Told of every step, in order: whether there is an exchange after it.
  virtual bool isDue(const LocalStep& step) = 0;

  // From the worker's weights and the center's, as they were before: what the worker goes on with (in `own`), and what is added to the
  // center's (in `change`). Float by float: a call may be for any part of them.
  virtual void exchange(std::span<float> own, std::span<const float> center, std::span<float> change) = 0;
};

// What a run's settings say to a rule; it may heed them or not.
struct ExchangeSettings {
  Step every = 1;      // --avg-freq
  double alpha = 0.5;  // --alpha
  int workers = 1;
  double probability = 0.1;  // --probability
  std::uint64_t seed = 0;
};

// By name. One is made for each worker.
class ExchangeRules {
 public:
  using Make = std::function<std::unique_ptr<ExchangeRule>(const ExchangeSettings&)>;

  // UsageError where the name is no name, or taken.
  void add(const std::string& name, Make make);
  bool has(std::string_view name) const { return rules_.contains(name); }
  std::unique_ptr<ExchangeRule> make(std::string_view name, const ExchangeSettings& settings) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, Make, std::less<>> rules_;
};

// easgd, gossip (gossip_rule.h).
ExchangeRules builtinExchangeRules();

// Elastic averaging (Zhang, Choromanska, LeCun 2015): every so many steps, a spring between the worker and the center. With an optimizer
// that has momentum it is their EAMSGD.
//
//   change <- alpha * (own - center);  own <- own - change;  center <- center + change
std::unique_ptr<ExchangeRule> elasticRule(Step every, double alpha);

}  // namespace cohort
