// SIGINT and SIGTERM: the first asks for a stop at the next step boundary, a second one leaves at once.
#pragma once

#include "train/run.h"

namespace cohort {

// Installs the handlers and returns the flag that the first signal sets. The one piece of process-wide state: a signal
// handler can reach nothing else.
const StopFlag& stopOnSignals();

}  // namespace cohort
