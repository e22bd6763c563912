// Places where a process can be made to die, or to lose something, to prove that it is survived or told.
//
// COHORT_CRASH_AT=NAME[:N] in the environment ends the process by SIGKILL when it comes to the place of this name, the N-th
// time (the first, without N). COHORT_LOSE_AT=NAME[:N] makes it leave out, once, what it would do at that place.
// COHORT_CRASH_WORKER=K: only in the process that is the worker of this rank.
#pragma once

#include <string_view>

namespace cohort {

void crashPoint(std::string_view name);
// Whether to leave it out this time.
bool lossPoint(std::string_view name);
// Tells these points which worker this process is, or which ones from this number on.
void setCrashWorker(int first, int count = 1);

}  // namespace cohort
