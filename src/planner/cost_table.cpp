#include "planner/cost_table.h"

#include <cmath>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

bool isTime(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

}  // namespace

void CostTable::set(const std::string& node, int workers, const NodeCost& cost) {
  if (workers < 1 || !isTime(cost.forwardSeconds) || !isTime(cost.backwardSeconds)) {
    throw UsageError(
        fmt::format("the cost of {} over {} workers is {} s forward and {} s backward; times are not "
                    "negative, and workers at least one",
                    node, workers, cost.forwardSeconds, cost.backwardSeconds));
  }
  rows_[{node, workers}] = cost;
}

NodeCost CostTable::costOf(const std::string& node, int workers) const {
  auto row = rows_.find({node, workers});
  if (row == rows_.end()) row = rows_.find({node, 1});
  if (row == rows_.end()) {
    throw UsageError(fmt::format("the table of costs has no row for {}; measure this network", node));
  }
  return row->second;
}

double CostTable::updateSeconds(std::size_t floats) const {
  return updateSecondsPerFloat_ * static_cast<double>(floats);
}

std::string toText(const CostTable& table) {
  std::string text;
  for (const auto& [key, cost] : table.rows_) {
    text += fmt::format("{} over {}: forward {} s, backward {} s\n", key.first, key.second,
                        cost.forwardSeconds, cost.backwardSeconds);
  }
  return text + fmt::format("update: {} s a float\n", table.updateSecondsPerFloat_);
}

}  // namespace cohort
