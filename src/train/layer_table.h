// A network layer by layer: what each one is, what it costs on paper, and what it took. For `describe`, for reports and
// for JOB_DIR/layers.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/executor.h"
#include "engine/plan.h"

namespace cohort {

struct LayerRow {
  std::string name;          // "conv1"
  std::string operatorText;  // "conv 5x5/1 same 32"
  std::string kind;  // conv, dense, pool, norm, activation, dropout, concat, add, flatten, loss or collective
  std::string output;  // of one sample: "64x12x12" (channels, height, width), or "10" where it is flat
  std::int64_t parameters = 0;      // weights; running statistics are none
  std::int64_t multiplyAdds = 0;    // one sample, forward
  std::size_t activationBytes = 0;  // of the output: a grain, or a round where the layer works on one
  std::string kernels = {};         // "jit:avx2 | jit:avx2"; empty where nothing is worth telling
  // Lanes' time divided by the lanes, as in summary.json. A fused ReLU's time is its layer's.
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  double updateSeconds = 0;  // adding up the layer's gradients and changing its weights

  bool operator==(const LayerRow&) const = default;
};

// In the order of the graph's nodes.
using LayerTable = std::vector<LayerRow>;

// `lanes` has one element per lane, each as Executor::nodeSeconds of this plan; empty: times of zero.
LayerTable layerTable(const ExecutionPlan& plan, std::span<const std::span<const NodeSeconds>> lanes = {});

// Of all layers' time, that of one kind.
double timeShare(const LayerTable& table, std::string_view kind);
// Of all weights, those of dense layers.
double denseWeightShare(const Graph& graph);

// layers.json: an array of objects with the keys name, operator, kind, output, parameters,
// multiply_adds, activation_bytes, kernels, forward_s, backward_s, update_s.
std::string toJson(const LayerTable& table);
// IoError that names `source` where the text is not such an array.
LayerTable layersFromJson(std::string_view text, const std::string& source);

}  // namespace cohort
