#include "sync/exchange_rule.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "sync/gossip_rule.h"

namespace cohort {
namespace {

class ElasticRule : public ExchangeRule {
 public:
  ElasticRule(Step every, double alpha) : every_(every), alpha_(static_cast<float>(alpha)) {}

  bool isDue(const LocalStep& step) override { return step.count % every_ == 0; }

  void exchange(std::span<float> own, std::span<const float> center, std::span<float> change) override {
    for (std::size_t i = 0; i < own.size(); ++i) {
      change[i] = alpha_ * (own[i] - center[i]);
      own[i] -= change[i];
    }
  }

 private:
  Step every_;
  float alpha_;
};

bool isName(std::string_view text) {
  const auto isPart = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && std::ranges::all_of(text, isPart);
}

}  // namespace

void ExchangeRules::add(const std::string& name, Make make) {
  if (!isName(name)) {
    throw UsageError(fmt::format("'{}' cannot be a rule's name; use small letters, digits and '-'", name));
  }
  if (!rules_.emplace(name, std::move(make)).second)
    throw UsageError(fmt::format("there are two rules called '{}'", name));
}

std::unique_ptr<ExchangeRule> ExchangeRules::make(std::string_view name,
                                                  const ExchangeSettings& settings) const {
  const auto found = rules_.find(name);
  if (found == rules_.end()) throw UsageError(fmt::format("there is no rule called '{}'", name));
  return found->second(settings);
}

std::vector<std::string> ExchangeRules::names() const {
  std::vector<std::string> names;
  for (const auto& [name, make] : rules_) names.push_back(name);
  return names;
}

ExchangeRules builtinExchangeRules() {
  ExchangeRules rules;
  rules.add("easgd",
            [](const ExchangeSettings& settings) { return elasticRule(settings.every, settings.alpha); });
  rules.add("gossip",
            [](const ExchangeSettings& settings) { return gossipRule(settings.probability, settings.seed); });
  return rules;
}

std::unique_ptr<ExchangeRule> elasticRule(Step every, double alpha) {
  return std::make_unique<ElasticRule>(every, alpha);
}

}  // namespace cohort
