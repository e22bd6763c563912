// Costs as a plain table: a row for each node and number of workers. Comparable and printable; thread-safe.
//
// Where a node has no row for m workers, its row for one worker counts: m grains of an m-th of the outputs are as much work as one
// grain of all.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "planner/cost_model.h"

namespace cohort {

class CostTable : public CostModel {
 public:
  CostTable() = default;
  explicit CostTable(double updateSecondsPerFloat) : updateSecondsPerFloat_(updateSecondsPerFloat) {}

  // Replaces what was there. UsageError where a time is negative or no number.
  void set(const std::string& node, int workers, const NodeCost& cost);

  NodeCost costOf(const std::string& node, int workers) const override;
  double updateSeconds(std::size_t floats) const override;

  bool operator==(const CostTable& other) const {
    return rows_ == other.rows_ && updateSecondsPerFloat_ == other.updateSecondsPerFloat_;
  }
  friend std::string toText(const CostTable& table);

 private:
  std::map<std::pair<std::string, int>, NodeCost> rows_;  // by node and workers
  double updateSecondsPerFloat_ = 0;
};

// A line for each row, by name and workers: "fc6 over 2: forward 0.001 s, backward 0.002 s"; the update last.
std::string toText(const CostTable& table);

}  // namespace cohort
