// A compiled graph from the inside: tasks, buffers, and how a lane binds them to its own memory. Private to
// engine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "base/batch.h"
#include "base/parameter.h"
#include "base/trainable.h"
#include "engine/lane_port.h"
#include "engine/memory_plan.h"
#include "engine/plan.h"
#include "graph/graph.h"

namespace cohort {

// Where a tensor's floats are.
struct BufferRef {
  enum class Kind {
    Lane,       // planned by lifetime, one copy per lane
    Prepared,   // weights in a kernel's layout, shared by the lanes
    Parameter,  // the plain arena; index is a ParameterIndex
    Input       // the batch's images
  };
  Kind kind = Kind::Lane;
  int index = -1;
  bool operator==(const BufferRef&) const = default;
};

struct Tensor {
  dnnl::memory::desc desc;
  BufferRef buffer;
  std::size_t offset = 0;  // floats, from the buffer's begin
};

// What a task may look at while it runs.
struct RunState {
  Batch batch;  // its spans, which must outlive the backward pass; not the caller's object
  // Of the own grain, and of the round that it is in.
  std::span<const std::int32_t> labels;
  std::int64_t position = 0;
  std::int64_t roundPosition = 0;
  GradientSink* sink = nullptr;
  LossSum loss;
  std::uint64_t seed = 0;
};

using Action = std::function<void(RunState&)>;

// One argument of a oneDNN primitive.
struct Argument {
  int kind = 0;  // DNNL_ARG_…
  Tensor tensor;
};

class Courier;  // carries a lane's messages of one collective; see redistribute.cpp

// Resolves a program's buffers to one lane's memory. Lives as long as the actions that it made.
class Binder {
 public:
  Binder(const Program& program, float* laneMemory, float* preparedMemory, const float* parameters,
         const LanePort* port = nullptr);
  ~Binder();
  Binder(Binder&&) noexcept;

  // A buffer's place; not for the input, which moves with every batch.
  float* at(BufferRef buffer) const;
  // A buffer's place now, the input included.
  const float* at(BufferRef buffer, const RunState& state) const;
  const float* parameter(ParameterIndex index) const;

  dnnl::memory memory(const Tensor& tensor);
  // Calls the primitive with memories made now.
  Action call(const dnnl::primitive& primitive, const std::vector<Argument>& arguments);
  // The same, with arguments that are already memories (so that the caller can move them).
  Action callWith(const dnnl::primitive& primitive,
                  const std::vector<std::pair<int, dnnl::memory>>& arguments);

  const dnnl::stream& stream() const { return stream_; }
  // The lane's way to the others of the group.
  const LanePort& port() const;
  // The courier under this tag; made at the first call.
  std::shared_ptr<Courier>& courier(int tag) { return couriers_[tag]; }
  void setInput(const float* images);

 private:
  const Program& program_;
  float* laneMemory_;
  float* preparedMemory_;
  const float* parameters_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> inputMemories_;
  const LanePort* port_ = nullptr;
  std::map<int, std::shared_ptr<Courier>> couriers_;
};

struct Task {
  // Where it may stand among tasks that use none of its buffers: a message leaves as early, and is waited for as late, as
  // that allows.
  enum class Order { AsEmitted, Earliest, Latest };

  NodeId node = 0;
  std::string kernel;           // for the layer table; empty where nothing is worth telling
  std::vector<BufferRef> uses;  // every buffer it reads or writes
  std::function<Action(Binder&)> bind;
  Order order = Order::AsEmitted;
};

// A weight in a kernel's layout.
struct PreparedWeight {
  ParameterIndex parameter = 0;
  Tensor plain;
  Tensor prepared;
  std::size_t offset = 0;  // bytes in the prepared block
};

class Program {
 public:
  Graph graph;
  ParameterLayout layout;
  GroupPlace place;
  EngineOptions options;
  std::vector<Task> forward;
  std::vector<Task> backward;
  std::vector<PreparedWeight> prepared;
  std::vector<Lifetime> lifetimes;  // of lane buffers, over forward then backward
  MemoryPlan memory;
  std::size_t preparedBytes = 0;
  std::vector<NodeReport> reports;
};

// The one oneDNN engine (the CPU); has no state of ours.
const dnnl::engine& cpuEngine();

inline std::size_t floatsIn(const dnnl::memory::desc& desc) {
  return desc.get_size() / sizeof(float);
}

}  // namespace cohort
