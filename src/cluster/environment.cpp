#include "cluster/environment.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/words.h"

namespace cohort {
namespace {

[[noreturn]] void failMissing(std::string_view name, std::string_view context) {
  throw UsageError(
      fmt::format("{} is not set, though {}; start the program with its whole environment", name, context));
}

}  // namespace

bool isSet(const Environment& environment, std::string_view name) {
  return environment.contains(name);
}

std::optional<std::string> textOf(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

std::optional<int> numberOf(const Environment& environment, std::string_view name) {
  const std::optional<std::string> text = textOf(environment, name);
  if (!text) return std::nullopt;
  const std::optional<int> number = wholeNumber(*text);
  if (!number) {
    throw UsageError(fmt::format(
        "the environment variable {} is {}, and should be a whole number from 0 on; set it right, or "
        "unset it where no launcher has set it",
        name, inQuotes(*text)));
  }
  return number;
}

std::string requireText(const Environment& environment, std::string_view name, std::string_view context) {
  const std::optional<std::string> text = textOf(environment, name);
  if (!text) failMissing(name, context);
  return *text;
}

int requireNumber(const Environment& environment, std::string_view name, std::string_view context) {
  const std::optional<int> number = numberOf(environment, name);
  if (!number) failMissing(name, context);
  return *number;
}

}  // namespace cohort
