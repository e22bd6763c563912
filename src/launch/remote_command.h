// What is started on a run's hosts, word for word: from the members of a hosts file to the command lines of ssh. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/environment.h"
#include "cluster/hosts_file.h"

namespace cohort {

// What all members have in common.
struct RemotePlan {
  // The program that runs a command on a host, and its first arguments; a host and one text for its shell follow.
  std::vector<std::string> ssh;
  std::string program;                      // on the hosts
  std::string directory;                    // on the hosts: where it starts
  std::vector<std::string> words;           // train …
  std::vector<std::string> variables = {};  // NAME=VALUE
};

// The default of --ssh: never asks for a password, as nobody would see it, and notices a host that has gone.
inline constexpr std::string_view kUsualSsh =
    "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4";

// Parted at blanks.
std::vector<std::string> blankSeparated(std::string_view text);

// The program's own variables, which tell members something too (COHORT_…), but for those that are about this process.
std::vector<std::string> passedVariables(const Environment& environment);

// The words that start members[me], the program that runs them first:
//   ssh … HOST "cd DIRECTORY && exec env NAME=VALUE PROGRAM attend PROGRAM train … --job-name worker --task-index 0"
// `attend` ends it with the connection (attend.h).
std::vector<std::string> remoteCommand(const RemotePlan& plan, const std::vector<PlannedMember>& members,
                                       std::size_t me);

}  // namespace cohort
