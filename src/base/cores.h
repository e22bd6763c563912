// The processor's cores, as far as this process may use them.
#pragma once

#include <vector>

namespace cohort {

// Their numbers, in order; at least one.
std::vector<int> allowedCores();
// That the machine has, whoever may use them.
int onlineCores();

}  // namespace cohort
