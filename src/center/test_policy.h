// For tests only: a policy's decisions as text, to be compared with what was worked out by hand.
//
//   give MEMBER STEP:FIRST-LAST vVERSION | commit STEP:FIRST-LAST,… | drop MEMBER STEP:FIRST-LAST | end, with "; " between them
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "center/policy.h"

namespace cohort {

inline std::string textOf(const GrainRange& grains) {
  return fmt::format("{}-{}", grains.first, grains.last);
}
inline std::string textOf(const Work& work) {
  return fmt::format("{}:{}", work.step, textOf(work.grains));
}
inline std::string textOf(const Assign& assign) {
  return fmt::format("give {} {} v{}", assign.member, textOf(assign.work), assign.version);
}
inline std::string textOf(const Commit& commit) {
  std::string text = fmt::format("commit {}:", commit.step);
  for (const GrainRange& grains : commit.grains) text += (text.back() == ':' ? "" : ",") + textOf(grains);
  return text;
}
inline std::string textOf(const Drop& drop) {
  return fmt::format("drop {} {}", drop.member, textOf(drop.work));
}
inline std::string textOf(const End&) {
  return "end";
}
inline std::string textOf(const std::vector<Decision>& decisions) {
  std::string text;
  for (const Decision& decision : decisions) {
    text += text.empty() ? "" : "; ";
    text += std::visit([](const auto& what) { return textOf(what); }, decision);
  }
  return text;
}

// A policy that is told events and answers in text.
class ToldPolicy {
 public:
  explicit ToldPolicy(std::unique_ptr<CenterPolicy> policy) : policy_(std::move(policy)) {}

  std::string joined(MemberId member) { return textOf(policy_->handle(Joined{member})); }
  std::string left(MemberId member) { return textOf(policy_->handle(Left{member})); }
  std::string finished(MemberId member, const Work& work) {
    return textOf(policy_->handle(Finished{member, work}));
  }
  std::string halted() { return textOf(policy_->handle(Halted{})); }
  Progress progress() const { return policy_->progress(); }

 private:
  std::unique_ptr<CenterPolicy> policy_;
};

}  // namespace cohort
