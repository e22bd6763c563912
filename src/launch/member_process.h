// A member of a center as its supervisor starts it: one worker's process, or mpirun with the workers of a group. Private to launch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/cores.h"
#include "launch/child_process.h"

namespace cohort {

class MemberProcess {
 public:
  struct Options {
    std::vector<std::string> command{};  // each worker's
    std::filesystem::path log{};         // what it prints, or mpirun does
    std::string supervisor{};            // the variable that says where the line to it is
    int first = 0;                       // the number of its first worker
    std::vector<OwnedCores> cores{};     // of each of its workers
    std::vector<std::string> group{};  // where one worker's group meets; empty: it has none, or is all of it
  };
  explicit MemberProcess(const Options& options);
  // Ends it where it still runs; mpirun is left the time to take away what it and its workers share.
  ~MemberProcess();
  MemberProcess(const MemberProcess&) = delete;
  MemberProcess& operator=(const MemberProcess&) = delete;

  std::optional<int> exitCode() { return process_.exitCode(); }
  void signal(int number) { process_.signal(number); }

  // Which of its workers ended first, and its exit code, where `code` is what all ended with; mpirun itself where that says none.
  struct Death {
    std::optional<int> worker{};
    int code = 0;
  };
  Death deathOf(int code) const;

 private:
  bool isGroup() const { return size_ > 1; }

  int first_;
  int size_;
  std::filesystem::path log_;
  std::uintmax_t logBegin_;  // what is before is of an earlier start
  ChildProcess process_;
};

}  // namespace cohort
