#include "launch/remote_command.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "launch/center_supervisor.h"
#include "launch/shell_word.h"
#include "launch/supervisor_link.h"

namespace cohort {
namespace {

constexpr std::string_view kOwnVariables = "COHORT_";
// This process's supervisor is not the members'.
constexpr std::array<std::string_view, 2> kNotPassed = {kSupervisorVariable, kWorkerVariable};

}  // namespace

std::vector<std::string> blankSeparated(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = text.find_first_not_of(' '); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(' ', end);
  }
  return words;
}

std::vector<std::string> passedVariables(const Environment& environment) {
  std::vector<std::string> passed;
  for (const auto& [name, text] : environment) {
    const bool isPassed = name.starts_with(kOwnVariables) && std::ranges::count(kNotPassed, name) == 0;
    if (isPassed) passed.push_back(fmt::format("{}={}", name, text));
  }
  return passed;
}

std::vector<std::string> remoteCommand(const RemotePlan& plan, const std::vector<PlannedMember>& members,
                                       std::size_t me) {
  std::vector<std::string> remote = {"exec"};
  if (!plan.variables.empty()) remote.emplace_back("env");
  remote.insert(remote.end(), plan.variables.begin(), plan.variables.end());
  remote.insert(remote.end(), {plan.program, "attend", plan.program});
  remote.insert(remote.end(), plan.words.begin(), plan.words.end());
  const std::vector<std::string> place = placeFlags(members, me);
  remote.insert(remote.end(), place.begin(), place.end());
  std::vector<std::string> command = plan.ssh;
  command.push_back(members[me].place.host);
  command.push_back(shellLine({"cd", plan.directory}) + " && " + shellLine(remote));
  return command;
}

}  // namespace cohort
