// Every rule that a center knows, by name: what it accepts, and the policy that decides. A new rule is a policy and a row here.
// Private to center.
#pragma once

#include <memory>
#include <string_view>

#include "center/setup.h"

namespace cohort {

struct RuleKind {
  std::string_view name;
  Acceptance acceptance;
  std::unique_ptr<CenterPolicy> (*makePolicy)(const CenterSetup& setup, const Progress& from);
};

// UsageError where there is none of that name.
const RuleKind& ruleCalled(std::string_view name);

}  // namespace cohort
