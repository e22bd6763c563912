// N singletons: a launcher has started N processes, and the MPI library that they are linked with cannot hear it, so that each
// finds itself alone. They would all train the same run, in the same folder, without a word.
#pragma once

#include <string>

#include "cluster/environment.h"

namespace cohort {

// What is wrong and what to change, where the environment tells of several tasks and MPI of one; otherwise empty. `mpiSize` is
// the size of MPI's world, after its initialisation.
std::string singletonsNote(const Environment& environment, int mpiSize);

}  // namespace cohort
