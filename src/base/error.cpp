#include "base/error.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace cohort {

void failedCheck(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "cohort: internal error at %s:%d: %.*s (%s)\n", file, line,
               static_cast<int>(message.size()), message.data(), condition);
  std::abort();
}

std::string systemMessage(int errorNumber) {
  return std::generic_category().message(errorNumber);
}

}  // namespace cohort
