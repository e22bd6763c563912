// What the terminal and the environment ask of a console. Private to cli.
#pragma once

#include "report/console.h"

namespace cohort {

// A live line and colours where the standard output (for colours, the standard error too) is a terminal that can move its
// cursor, that is TERM is set and not "dumb"; no colours where NO_COLOR is set to anything.
ConsoleOptions terminalOptions(Verbosity verbosity);

}  // namespace cohort
