#include "engine/instruction_set.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.h"

namespace cohort {
namespace {

struct Known {
  std::string_view name;
  dnnl::cpu_isa isa;
  bool present;
};

std::array<Known, 3> knownSets() {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return {Known{"sse41", dnnl::cpu_isa::sse41, __builtin_cpu_supports("sse4.1") != 0},
          {"avx2", dnnl::cpu_isa::avx2, __builtin_cpu_supports("avx2") != 0},
          {"avx512", dnnl::cpu_isa::avx512_core, avx512}};
#else
  return {Known{"native", dnnl::cpu_isa::all, true},
          {"", dnnl::cpu_isa::all, false},
          {"", dnnl::cpu_isa::all, false}};
#endif
}

}  // namespace

std::string bestInstructionSet() {
  std::string best;
  for (const Known& known : knownSets()) {
    if (known.present) best = known.name;
  }
  return best;
}

void useInstructionSet(std::string_view name) {
  std::string names;
  for (const Known& known : knownSets()) {
    if (known.name == name) {
      if (!known.present) {
        throw UsageError(
            fmt::format("this run needs the instruction set {}, which this machine does not have; its best "
                        "is {} (a new run can use it)",
                        name, bestInstructionSet()));
      }
      const bool set = dnnl::set_max_cpu_isa(known.isa) == dnnl::status::success;
      if (!set && dnnl::get_effective_cpu_isa() != known.isa) {
        throw UsageError(
            fmt::format("kernels of another instruction set than {} have run in this process already", name));
      }
      return;
    }
    if (known.present) names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  throw UsageError(fmt::format("--isa {} is unknown; this machine has {}", name, names));
}

void checkProcessor() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    throw UsageError("this build needs a processor with AVX2 and FMA (x86-64-v3)");
  }
#endif
}

}  // namespace cohort
