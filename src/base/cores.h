// Cores, and how workers divide them.
//
// A *core* is a physical one. It runs one or several hardware threads, which are what the system numbers. Two lanes on one core would
// share its arithmetic, so a worker has a lane for each of its cores, and hardware threads stay with their core's owner.
#pragma once

#include <vector>

namespace cohort {

struct Core {
  int package = 0;
  int node = 0;                // of memory
  int cache = 0;               // the largest one that it shares
  std::vector<int> threads{};  // those that may be used, in order

  bool operator==(const Core&) const = default;
};

// What one worker owns.
struct OwnedCores {
  std::vector<int> threads{};  // one of each core, neighbours first; then the others of these cores
  int cores = 0;               // may be a part of one, where there are more workers than cores
  int lanes = 1;               // that it has where nobody says otherwise

  bool operator==(const OwnedCores&) const = default;
};

// As many cores as there are numbers, each of its own: for who does not know better.
std::vector<Core> separateCores(const std::vector<int>& threads);

// Of these cores only those threads that are `allowed`. A thread that belongs to none of them is a core of its own.
std::vector<Core> allowedOf(const std::vector<Core>& cores, const std::vector<int>& allowed);

// One of `workers` equals' part. Neighbours (a cache's, a node's, a package's) go to the same worker as far as parts are equal. Where there are more workers than
// cores, their threads are divided; where there are more than threads, some workers have none and the system places their lane.
OwnedCores coresOfPart(const std::vector<Core>& cores, int part, int workers);

}  // namespace cohort
