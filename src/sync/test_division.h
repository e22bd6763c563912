// For tests only: a network's parameters, and what each member of a group computes of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/grain_tree.h"
#include "base/parameter.h"
#include "sync/divided_plan.h"

namespace cohort {

struct DividedNetwork {
  ParameterLayout whole;
  std::vector<DividedPlan::Member> members;
};

// `divided` parameters' rows are shared among the members; of the others, everybody has all.
inline DividedNetwork dividedNetwork(const std::vector<ParameterSpec>& specs,
                                     const std::vector<bool>& divided, int members) {
  DividedNetwork network{.whole = ParameterLayout(specs), .members = {}};
  for (int member = 0; member < members; ++member) {
    std::vector<ParameterLayout::Part> parts;
    std::vector<bool> isPrivate;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Parameter& all = network.whole.parameters()[i];
      const auto rows = static_cast<int>(all.shape.front());
      const GrainRange mine = divided[i] ? shareOf({0, rows}, {member, members}) : GrainRange{0, rows};
      ParameterLayout::Part part{.spec = specs[i], .offset = all.offset};
      part.spec.shape.front() = mine.count();
      part.offset += all.size / static_cast<std::size_t>(rows) * static_cast<std::size_t>(mine.first);
      parts.push_back(std::move(part));
      isPrivate.push_back(mine.count() < rows);
    }
    network.members.push_back(
        {ParameterLayout(std::move(parts), network.whole.size()), std::move(isPrivate)});
  }
  return network;
}

}  // namespace cohort
