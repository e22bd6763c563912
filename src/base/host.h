// The machine that this process runs on.
#pragma once

#include <string>
#include <vector>

#include "base/cores.h"

namespace cohort {

// "localhost" where it has none.
std::string hostName();

// The hardware threads that this process may use, as the system numbers them, in order; at least one.
std::vector<int> allowedCores();
// That the machine has, whoever may use them.
int onlineCores();

// The cores of these threads: which belong together.
std::vector<Core> hostCores();
// The same of an invented machine, in hwloc's words: "pack:2 core:4 pu:2".
std::vector<Core> describedCores(const std::string& description);

// What a process has that shares with nobody: all that it may use, as many lanes as its control groups' limit of processor time lets.
OwnedCores ownCores();

// From now on the calling thread, and those that it makes, run on these; false where the system refuses. None: nothing changes.
bool keepTo(const std::vector<int>& threads);

}  // namespace cohort
