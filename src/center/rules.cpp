#include "center/rules.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

std::unique_ptr<CenterPolicy> makeAsync(const CenterSetup& setup, const Progress& from) {
  return asyncPolicy({.target = setup.target, .grains = setup.grains}, from);
}

std::unique_ptr<CenterPolicy> makeStaleSynchronous(const CenterSetup& setup, const Progress& from) {
  return asyncPolicy({.target = setup.target, .grains = setup.grains, .staleness = setup.rule.staleness},
                     from);
}

std::unique_ptr<CenterPolicy> makeBulkSynchronous(const CenterSetup& setup, const Progress& from) {
  return synchronousPolicy({.target = setup.target, .grains = setup.grains}, from);
}

std::unique_ptr<CenterPolicy> makeBackup(const CenterSetup& setup, const Progress& from) {
  return synchronousPolicy({.target = setup.target,
                            .grains = setup.grains,
                            .members = setup.rule.members,
                            .backups = setup.rule.backups},
                           from);
}

constexpr std::array kRules{
    RuleKind{"bsp", Acceptance::WhenComplete, Application::Optimize, makeBulkSynchronous},
    RuleKind{"async", Acceptance::AtOnce, Application::Optimize, makeAsync},
    RuleKind{"ssp", Acceptance::AtOnce, Application::Optimize, makeStaleSynchronous},
    RuleKind{"backup", Acceptance::OnCommit, Application::Optimize, makeBackup},
};
constexpr RuleKind kExchange{"", Acceptance::AtOnce, Application::Add, makeAsync};
constexpr RuleKind kGossip{"gossip", Acceptance::AtOnce, Application::Mail, makeAsync};

}  // namespace

const RuleKind& kindOf(const CenterRule& rule) {
  if (rule.hasOwnWeights) return rule.name == kGossip.name ? kGossip : kExchange;
  const auto* const found = std::ranges::find(kRules, rule.name, &RuleKind::name);
  if (found == kRules.end()) throw UsageError(fmt::format("no center knows the rule '{}'", rule.name));
  return *found;
}

Acceptance acceptanceOf(const CenterRule& rule) {
  return kindOf(rule).acceptance;
}

Application applicationOf(const CenterRule& rule) {
  return kindOf(rule).application;
}

std::unique_ptr<CenterPolicy> makePolicy(const CenterSetup& setup, const Progress& from) {
  return kindOf(setup.rule).makePolicy(setup, from);
}

}  // namespace cohort
