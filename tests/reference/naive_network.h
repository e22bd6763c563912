// A network evaluated in double precision by plain loops, to compare the engine with: nothing is shared with
// the engine's code, and nothing is clever. Slow; for small networks.
//
// Thread safety: as a plain value.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/batch.h"
#include "base/parameter.h"
#include "graph/graph.h"

namespace cohort::reference {

class NaiveNetwork {
 public:
  struct Options {
    bool training = true;    // false: running statistics, no dropout, no auxiliary heads
    std::uint64_t seed = 0;  // of dropout
  };

  // `parameters` in the places of parameterLayout(graph). The batch's spans must outlive this.
  NaiveNetwork(const Graph& graph, std::span<const double> parameters, const Batch& batch,
               const Options& options);
  NaiveNetwork(const Graph& graph, std::span<const float> parameters, const Batch& batch,
               const Options& options);

  // Computes everything again from `node` on; the values before it must still be right.
  void run(NodeId first = 0);

  // The first node that reads the parameter.
  NodeId reader(ParameterIndex parameter) const { return readers_[static_cast<std::size_t>(parameter)]; }
  double& parameter(std::size_t offset) { return parameters_[offset]; }
  const ParameterLayout& layout() const { return layout_; }

  // What the engine's gradient is the gradient of: means are divided by the samples of the whole step.
  double objective() const;
  // What the engine reports: weighted sums over samples, never divided.
  double lossSum() const;
  // [samples, channels, height, width]
  std::span<const double> value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  // The grain's own means and unbiased variances, by the name of the running statistic.
  const std::map<std::string, std::vector<double>>& statistics() const { return statistics_; }

 private:
  struct Evaluate;  // one operator() per operator

  Graph graph_;
  ParameterLayout layout_;
  std::vector<double> parameters_;
  Batch batch_;
  Options options_;
  std::vector<NodeId> readers_;  // by parameter
  std::vector<std::vector<double>> values_;
  std::map<NodeId, double> losses_;  // by loss node: the unweighted sum over samples
  std::map<std::string, std::vector<double>> statistics_;
};

}  // namespace cohort::reference
