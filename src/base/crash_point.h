// Places where a process can be made to die, to prove that nothing is lost there.
//
// COHORT_CRASH_AT=NAME[:N] in the environment ends the process by SIGKILL when it comes to the place of this name, the N-th
// time (the first, without N). COHORT_CRASH_WORKER=K: only in the worker of this rank.
#pragma once

#include <string_view>

namespace cohort {

void crashPoint(std::string_view name);
// Tells crash points which worker this process is.
void setCrashWorker(int rank);

}  // namespace cohort
