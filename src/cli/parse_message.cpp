#include "cli/parse_message.h"

#include <vector>

#include <fmt/format.h>

#include "base/nearest.h"
#include "train/older_names.h"

namespace cohort {
namespace {

// "train, launch or serve"; those that help does not show are left out.
std::string alternatives(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

std::string nearestFlag(const CLI::App& command, const std::string& wrong) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (findOlderName(name) == nullptr) flags.push_back("--" + name);
    }
  }
  return nearestWord(wrong, flags);
}

}  // namespace

std::string parseMessage(const CLI::App& app, const CLI::ParseError& error) {
  for (const CLI::App* command : app.get_subcommands()) {
    std::string name = command->get_name();
    for (; !command->get_subcommands().empty(); name += " " + command->get_name()) {
      command = command->get_subcommands().front();
    }
    std::vector<std::string> rest = command->remaining();
    std::erase(rest, "--");
    if (rest.empty()) continue;
    const std::string wrong = rest.front().substr(0, rest.front().find('='));
    const std::string nearest = nearestFlag(*command, wrong);
    return fmt::format("cohort {} does not know {}{}", name, wrong,
                       nearest.empty() ? fmt::format("; see cohort {} --help", name)
                                       : fmt::format("; did you mean {}?", nearest));
  }
  if (app.get_subcommands().empty()) {
    const std::vector<std::string> rest = app.remaining();
    return fmt::format(
        "{} is {} (see cohort --help)",
        rest.empty() ? "the first word after cohort" : fmt::format("'{}' is no command: it", rest[0]),
        alternatives(app.get_subcommands([](const CLI::App*) { return true; })));
  }
  return error.what();
}

}  // namespace cohort
