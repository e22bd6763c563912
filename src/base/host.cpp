#include "base/host.h"

#include <algorithm>
#include <array>

#include <sched.h>
#include <unistd.h>

#include "base/cpu_limit.h"

namespace cohort {

std::string hostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::vector<int> allowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int onlineCores() {
  return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

OwnedCores ownCores() {
  OwnedCores own = coresOfPart(hostCores(), 0, 1);
  if (const auto limit = cpuLimit()) own.lanes = std::min(own.lanes, lanesWithin(*limit, 1));
  return own;
}

bool keepTo(const std::vector<int>& threads) {
  if (threads.empty()) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int thread : threads) {
    if (thread < 0 || thread >= CPU_SETSIZE) return false;
    CPU_SET(static_cast<std::size_t>(thread), &set);
  }
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace cohort
