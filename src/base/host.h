// The machine that this process runs on.
#pragma once

#include <string>
#include <vector>

namespace cohort {

// "localhost" where it has none.
std::string hostName();

// The cores that this process may use, in order; at least one.
std::vector<int> allowedCores();
// That the machine has, whoever may use them.
int onlineCores();

}  // namespace cohort
