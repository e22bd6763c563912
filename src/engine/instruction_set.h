// The instruction set is part of a run's configuration: kernels of different ones add in different orders.
#pragma once

#include <string>
#include <string_view>

namespace cohort {

// The best that this machine and the kernels have: "sse41", "avx2" or "avx512".
std::string bestInstructionSet();

// From now on kernels use this one; before the first kernel of the process. UsageError where the name is unknown or
// the machine does not have it.
void useInstructionSet(std::string_view name);

// UsageError where this processor cannot run our own code (AVX2 and FMA on x86-64).
void checkProcessor();

}  // namespace cohort
