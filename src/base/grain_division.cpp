#include "base/grain_division.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "base/error.h"

namespace cohort {

GrainDivision::GrainDivision(const std::vector<int>& counts) : bounds_{0} {
  COHORT_CHECK(!counts.empty(), "somebody computes");
  for (const int count : counts) {
    COHORT_CHECK(count >= 1, "every worker has a grain");
    bounds_.push_back(bounds_.back() + count);
  }
}

GrainDivision GrainDivision::equal(int grains, int workers) {
  return byLanes(grains, std::vector<int>(static_cast<std::size_t>(workers), 1));
}

GrainDivision GrainDivision::byLanes(int grains, std::span<const int> lanes) {
  const auto workers = static_cast<int>(lanes.size());
  COHORT_CHECK(workers >= 1 && workers <= grains, "every worker has a grain");
  const std::int64_t all = std::accumulate(lanes.begin(), lanes.end(), std::int64_t{0});
  GrainDivision division;
  division.bounds_.push_back(0);
  std::int64_t before = 0;
  for (int worker = 0; worker < workers; ++worker) {
    COHORT_CHECK(lanes[static_cast<std::size_t>(worker)] >= 1, "every worker has a lane");
    before += lanes[static_cast<std::size_t>(worker)];
    const auto bound = static_cast<int>(std::int64_t{grains} * before / all);
    // One grain at least for it, and for each of those behind.
    division.bounds_.push_back(
        std::clamp(bound, division.bounds_.back() + 1, grains - (workers - worker - 1)));
  }
  return division;
}

GrainRange GrainDivision::of(int worker) const {
  COHORT_CHECK(worker >= 0 && worker < workers(), "one of the workers");
  return {bounds_[static_cast<std::size_t>(worker)], bounds_[static_cast<std::size_t>(worker) + 1]};
}

std::vector<int> GrainDivision::counts() const {
  std::vector<int> counts;
  counts.reserve(bounds_.size());
  for (int worker = 0; worker < workers(); ++worker) counts.push_back(of(worker).count());
  return counts;
}

}  // namespace cohort
