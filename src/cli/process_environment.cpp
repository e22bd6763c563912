#include "cli/process_environment.h"

#include <string_view>

#include <unistd.h>

namespace cohort {

Environment processEnvironment() {
  Environment environment;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace cohort
