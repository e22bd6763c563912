// Parameter rules: their text, and what they come to for each parameter.
#include <algorithm>
#include <regex>

#include <fmt/format.h>

#include "base/error.h"
#include "optim/optimizer.h"
#include "optim/parse.h"

namespace cohort {
namespace {

std::regex compilePattern(const std::string& pattern, std::string_view owner) {
  try {
    return std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("The {} '{}' is not a regular expression (ECMAScript): {}.", owner, pattern,
                                 error.what()));
  }
}

constexpr std::string_view kRuleOwner = "pattern of the parameter rule";
constexpr std::string_view kFilterOwner = "weight-decay filter";

[[noreturn]] void refuseUnmatched(std::string_view owner, std::string_view pattern,
                                  const ParameterLayout& layout) {
  constexpr std::size_t kShown = 8;
  std::string names;
  std::size_t count = 0;
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.kind != ParameterKind::Weight) continue;
    if (count < kShown) names += (count == 0 ? "" : ", ") + parameter.name;
    if (count++ == kShown) names += ", …";
  }
  throw UsageError(
      fmt::format("The {} '{}' matches no parameter of the network, which has {}.", owner, pattern, names));
}

// The rules with their expressions compiled once.
class RuleBook {
 public:
  explicit RuleBook(const std::vector<ParamRule>& rules) : rules_(rules), used_(rules.size(), false) {
    for (const ParamRule& rule : rules) expressions_.push_back(compilePattern(rule.pattern, kRuleOwner));
  }

  // Null where no rule matches.
  const ParamRule* find(const std::string& name) {
    const ParamRule* exact = nullptr;
    const ParamRule* first = nullptr;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      const bool same = rules_[i].pattern == name;
      if (!same && !std::regex_search(name, expressions_[i])) continue;
      used_[i] = true;
      if (same && exact == nullptr) exact = &rules_[i];
      if (first == nullptr) first = &rules_[i];
    }
    return exact != nullptr ? exact : first;
  }

  // A rule that never matched is most likely a slip in its pattern.
  void refuseUnused(const ParameterLayout& layout) const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (!used_[i]) refuseUnmatched(kRuleOwner, rules_[i].pattern, layout);
    }
  }

 private:
  const std::vector<ParamRule>& rules_;
  std::vector<std::regex> expressions_;
  std::vector<bool> used_;
};

void setKey(ParamRule& rule, std::string_view key, std::string_view value, std::string_view text) {
  const std::string what = fmt::format("The {} in the parameter rule '{}'", key, text);
  if (key == "lr") {
    rule.lr = parse::numberFromZero(value, what);
  } else if (key == "decay") {
    rule.decay = parse::numberFromZero(value, what);
  } else if (key == "momentum") {
    const double momentum = parse::numberFromZero(value, what);
    if (momentum >= 1) throw UsageError(fmt::format("{} must be less than 1, but it is {}.", what, value));
    rule.momentum = momentum;
  } else {
    throw UsageError(fmt::format(
        "The parameter rule '{}' has the unknown key '{}'; known keys are lr, momentum and decay.", text,
        key));
  }
}

}  // namespace

ParamRule parseParamRule(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    throw UsageError(fmt::format(
        "The parameter rule '{}' must have the form REGEX:key=value,… as in 'bias$:lr=2,decay=0'.", text));
  }
  ParamRule rule{.pattern = std::string(text.substr(0, colon))};
  compilePattern(rule.pattern, kRuleOwner);
  std::vector<std::string_view> seen;
  for (const std::string_view item : parse::split(text.substr(colon + 1), ',')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(
          fmt::format("The parameter rule '{}' has '{}' where key=value is expected.", text, item));
    }
    const std::string_view key = parse::trimmed(item.substr(0, equals));
    if (std::ranges::find(seen, key) != seen.end()) {
      throw UsageError(fmt::format("The parameter rule '{}' sets {} twice.", text, key));
    }
    seen.push_back(key);
    setKey(rule, key, item.substr(equals + 1), text);
  }
  return rule;
}

std::vector<ParameterCoefficients> parameterCoefficients(const OptimizerOptions& options,
                                                         const ParameterLayout& layout) {
  validate(options);
  RuleBook rules(options.rules);
  const std::regex decayFilter = compilePattern(options.weightDecayFilter, kFilterOwner);
  bool anyDecays = false;
  std::vector<ParameterCoefficients> all;
  for (const Parameter& parameter : layout.parameters()) {
    ParameterCoefficients& own = all.emplace_back();
    if (parameter.kind != ParameterKind::Weight) continue;
    const bool decays =
        std::regex_search(parameter.name, decayFilter);  // an empty expression is found in all
    anyDecays |= decays;
    own = {1, momentumOf(options), decays ? options.weightDecay : 0};
    if (const ParamRule* rule = rules.find(parameter.name)) {
      own.learningRate = rule->lr;
      own.momentum = rule->momentum.value_or(own.momentum);
      own.decay *= rule->decay;
    }
  }
  rules.refuseUnused(layout);
  if (options.weightDecay > 0 && !anyDecays) refuseUnmatched(kFilterOwner, options.weightDecayFilter, layout);
  return all;
}

}  // namespace cohort
