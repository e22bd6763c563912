// The kinds of failure, and who can do something about each.
//
//   UsageError           the user can fix it: the sentence says what to change; exit code 2.
//   IoError              the world failed (a file, a disk): the sentence names it; exit code 3.
//   PeerError            another worker failed or does not answer: the sentence names it and what it was waited for; exit
//                        code 4.
//   COHORT_CHECK         our own logic is wrong: abort with the place. Never for bad input.
//
// Library code throws; only `cli` prints and chooses an exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace cohort {

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PeerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void failedCheck(const char* file, int line, const char* condition, std::string_view message);

// "no such file or directory" for errno; thread-safe.
std::string systemMessage(int errorNumber);

}  // namespace cohort

#define COHORT_CHECK(condition, message)                                              \
  do {                                                                                \
    if (!(condition)) ::cohort::failedCheck(__FILE__, __LINE__, #condition, message); \
  } while (false)
