#include "cli/terminal.h"

#include <cstdlib>
#include <string_view>

#include <unistd.h>

namespace cohort {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

}  // namespace

ConsoleOptions terminalOptions(Verbosity verbosity) {
  const std::string_view kind = environment("TERM");
  const bool live = isatty(STDOUT_FILENO) != 0 && !kind.empty() && kind != "dumb";
  const bool colours = live && isatty(STDERR_FILENO) != 0 && environment("NO_COLOR").empty();
  return {.live = live, .colours = colours, .verbosity = verbosity};
}

}  // namespace cohort
