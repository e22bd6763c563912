// SIGINT, SIGTERM and SIGUSR1: the first asks for a stop at the next step boundary, a second SIGINT or SIGTERM leaves at once.
//
// A thread of its own waits for them, and every other thread blocks them. A handler is no way: the kernel would put its
// frame below the stack pointer of the thread that it interrupts, and oneDNN's matrix kernels point that register at a
// buffer of the heap while they compute, so the frame would overwrite whatever lies before it.
#pragma once

#include "train/run.h"

namespace cohort {

// Starts the thread and returns the flag that the first signal sets. Call it before other threads are made: they take
// over the caller's mask, as child processes do. The one piece of process-wide state: there is one set of signals.
const StopFlag& stopOnSignals();
// A second signal is no second wish: supervised workers get the first one from whoever sent it to all, and from the supervisor.
void ignoreFurtherSignals();
// For a supervised worker of a center: takes no notice of those, and returns the flag that its supervisor's kLeaveSignal sets.
const StopFlag& leaveWhenAsked();

}  // namespace cohort
