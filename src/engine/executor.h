// Doing, many times: one lane's memory and calls, made once from the plan. A step creates no primitive,
// decides no layout and allocates nothing of ours.
//
// Thread safety: an Executor belongs to one thread at a time; several may run at once on one plan and one set
// of prepared weights. Each thread calls singleThreadedKernels() before its first kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/float_buffer.h"
#include "base/lane_place.h"
#include "base/trainable.h"
#include "engine/lane_port.h"
#include "engine/plan.h"

namespace cohort {

// Convolution weights in the kernels' layouts, for all lanes.
class PreparedWeights {
 public:
  // `weights` is the plain arena; it must outlive this.
  PreparedWeights(const ExecutionPlan& plan, std::span<const float> weights);
  ~PreparedWeights();

  void refresh(Share share);
  float* memory() { return memory_.data(); }
  std::span<const float> weights() const { return weights_; }

 private:
  struct Bound;
  std::span<const float> weights_;
  FloatBuffer memory_;
  std::unique_ptr<Bound> bound_;
};

// Where one lane's time went, since its executor was made. What a ReLU costs that is fused into the node before it is that
// node's; so is a reorder that the node asked for.
struct NodeSeconds {
  double forward = 0;
  double backward = 0;
  double update = 0;  // in the sink, with its finished gradients: adding up grains, changing weights
};

class Executor : public Trainable {
 public:
  // `seed` keys dropout. `memory` holds at least plan.laneBytes() and may be lent to several executors that
  // never run at once; all the references must outlive this. `port` is for a worker of a group.
  Executor(const ExecutionPlan& plan, PreparedWeights& weights, std::span<float> memory, std::uint64_t seed,
           std::optional<LanePort> port = {});
  ~Executor() override;

  const ParameterLayout& layout() const override { return plan_.layout(); }
  void refreshWeights(Share share) override { weights_.refresh(share); }
  LossSum forward(const Batch& batch) override;
  void backward(GradientSink& sink) override;

  // From now on, tells there which node it computes; the place outlives this.
  void tell(LanePlace& place) { place_ = &place; }

  // By NodeId. Written by the thread that runs this executor: look when it is between steps.
  std::span<const NodeSeconds> nodeSeconds() const { return seconds_; }

 private:
  struct Bound;
  const ExecutionPlan& plan_;
  PreparedWeights& weights_;
  std::optional<LanePort> port_;
  std::unique_ptr<Bound> bound_;
  std::vector<NodeSeconds> seconds_;
  LanePlace unseen_;
  LanePlace* place_ = &unseen_;
};

// The tags that one lane's collectives need.
int lanePortTags(const Graph& graph);

// Kernels called by this thread use no other thread.
void singleThreadedKernels();

}  // namespace cohort
