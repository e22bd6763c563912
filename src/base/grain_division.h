// Which of a step's grains are whose: contiguous ranges in the order of the workers, at least one grain each. Sums follow the
// grains' tree, so no bit depends on it.
//
// A value, the same on all workers.
#pragma once

#include <span>
#include <vector>

#include "base/grain_tree.h"

namespace cohort {

class GrainDivision {
 public:
  // By worker.
  explicit GrainDivision(const std::vector<int>& counts);
  // Parts differ by one grain at most.
  static GrainDivision equal(int grains, int workers);
  // In proportion to the workers' lanes, as far as grains are whole.
  static GrainDivision byLanes(int grains, std::span<const int> lanes);

  int workers() const { return static_cast<int>(bounds_.size()) - 1; }
  int grains() const { return bounds_.back(); }
  GrainRange of(int worker) const;
  std::vector<int> counts() const;

  bool operator==(const GrainDivision&) const = default;

 private:
  GrainDivision() = default;

  std::vector<GrainIndex> bounds_;  // where each worker's begin, and the end of all
};

}  // namespace cohort
