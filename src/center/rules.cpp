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
    RuleKind{"bsp", Acceptance::WhenComplete, makeBulkSynchronous},
    RuleKind{"async", Acceptance::AtOnce, makeAsync},
    RuleKind{"ssp", Acceptance::AtOnce, makeStaleSynchronous},
    RuleKind{"backup", Acceptance::OnCommit, makeBackup},
};

}  // namespace

const RuleKind& ruleCalled(std::string_view name) {
  const auto* const found = std::ranges::find(kRules, name, &RuleKind::name);
  if (found == kRules.end()) throw UsageError(fmt::format("no center knows the rule '{}'", name));
  return *found;
}

Acceptance acceptanceOf(const CenterRule& rule) {
  return ruleCalled(rule.name).acceptance;
}

std::unique_ptr<CenterPolicy> makePolicy(const CenterSetup& setup, const Progress& from) {
  return ruleCalled(setup.rule.name).makePolicy(setup, from);
}

}  // namespace cohort
