// The variables that this process was started with, as a value for the pure functions of `cluster`. Private to cli.
#pragma once

#include "cluster/environment.h"

namespace cohort {

// Before threads are started that could change them.
Environment processEnvironment();

}  // namespace cohort
