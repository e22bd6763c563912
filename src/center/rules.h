// Every rule that a center knows, by name: what it accepts, and the policy that decides. A new rule is a policy and a row here; those with weights
// of their own are all one to a center, but for gossip, whose mail it carries.
// Private to center.
#pragma once

#include <memory>
#include <string_view>

#include "center/setup.h"

namespace cohort {

struct RuleKind {
  std::string_view name;
  Acceptance acceptance;
  Application application;
  std::unique_ptr<CenterPolicy> (*makePolicy)(const CenterSetup& setup, const Progress& from);
};

// UsageError where there is none.
const RuleKind& kindOf(const CenterRule& rule);

}  // namespace cohort
