// A file that names the hosts of a run, for those who start it there: a line for each process, or for several alike.
//
//   file    := line newline line newline …           what follows # is a comment
//   line    := ADDRESS role [cores=LIST]             blanks or tabs between them
//   ADDRESS := HOST:PORT                             as other members reach it; n[1-4]:2222 is four of them
//            | HOST                                  of an evaluator, to which nobody connects
//   role    := ps | worker | evaluator
//   LIST    := 0-3,8                                 the host's cores that this process may use; all where none are given
//
// Each role is numbered from 0 in the order of the lines; worker 0 is the chief.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster_map.h"

namespace cohort {

// A process that is to be started.
struct PlannedMember {
  Member place = {};            // without a rank
  std::vector<int> cores = {};  // empty: those that it finds

  bool operator==(const PlannedMember&) const = default;
};

// Servers, then workers, then the evaluator. UsageErrors that name `source` and the line: what is wrong and what to write; also
// where there is no worker, a second evaluator, one address twice, or one core of a host in two lines.
std::vector<PlannedMember> parseHostsFile(std::string_view text, const std::string& source);

// What tells a process of this program that it is members[me]: --ps-hosts … --worker-hosts … --job-name … --task-index …, and
// --devices-visible where the line names cores. The first two are the same for all.
std::vector<std::string> placeFlags(const std::vector<PlannedMember>& members, std::size_t me);

}  // namespace cohort
