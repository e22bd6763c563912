// The examination itself: everybody finds out what it can, all tell each other, and pairs of hosts measure the way between them.
// All members make the same call; each has the whole survey afterwards.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "cluster/address.h"
#include "doctor/facts.h"
#include "doctor/meeting.h"
#include "doctor/own_facts.h"

namespace cohort {

// What costs next to nothing: programs, processors, clocks, cores, memory. For the beginning of every run.
Survey briefSurvey(Meeting& meeting, const OwnPlace& own, const PlannedRun& plan);

struct Examination {
  OwnPlace own = {};
  PlannedRun plan = {};
  std::filesystem::path directory = {};  // empty: none is looked at
  // Of a cluster that is named by addresses.
  std::vector<Address> addresses = {};  // by place; empty: hosts are asked for theirs
  Descriptor listener = {};             // at the own one; nothing: any port
  std::vector<Missing> missing = {};
  double waited = 0;
};
// Seconds, for 64 hosts too.
Survey examine(Meeting& meeting, Examination examination);

}  // namespace cohort
