// Who belongs to a run, where each is, and who of them this process is: what every launcher's variables, TF_CONFIG and host
// flags are turned into. A value: comparable, and printable as a table.
//
// The words: a *member* is a process of the run. *Workers* compute, *servers* hold the parameters for rules with a center; an
// *evaluator* is no part of the training, and looks at what the others have written. Each role is numbered from 0; worker 0 is
// the chief. Those whom a launcher started as one job are *tasks* and have a *rank* there.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

enum class Role { Server, Worker, Evaluator };

std::string toText(Role role);  // "server"

struct Member {
  Role role = Role::Worker;
  int index = 0;                  // among those of its role
  std::string host = {};          // empty: unknown, as of an evaluator that is in no list
  int localIndex = 0;             // among those of its host
  std::optional<int> port = {};   // where it listens; nothing: nobody connects to it
  std::optional<int> rank = {};   // of a launcher's task
  std::optional<int> group = {};  // of a worker, where it is in one

  bool operator==(const Member&) const = default;
};

// "server 1", "worker 0"
std::string nameOf(const Member& member);

// There is at least one member.
struct ClusterMap {
  std::vector<Member> members;
  std::size_t me = 0;  // index of this process's

  const Member& self() const { return members[me]; }
  std::size_t count(Role role) const;
  bool operator==(const ClusterMap&) const = default;
};

// A run of one process, on the host of this name.
ClusterMap oneMachine(const std::string& host);

// A line for each member below the columns' names, this process's with a mark; what nobody has, has no column.
std::string toText(const ClusterMap& cluster);

}  // namespace cohort
