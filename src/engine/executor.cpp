#include "engine/executor.h"

#include <chrono>
#include <utility>

#include <omp.h>

#include "base/error.h"
#include "engine/program.h"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

// The time since `since`, which moves on to now: one look at the clock between two tasks.
double lap(Clock::time_point& since) {
  const Clock::time_point now = Clock::now();
  return std::chrono::duration<double>(now - std::exchange(since, now)).count();
}

// A task of one node, bound to a lane.
struct BoundTask {
  NodeId node = 0;
  Action action;
};

std::vector<BoundTask> bindAll(const std::vector<Task>& tasks, Binder& binder) {
  std::vector<BoundTask> bound;
  bound.reserve(tasks.size());
  for (const Task& task : tasks) bound.push_back({task.node, task.bind(binder)});
  return bound;
}

// Hands everything on, keeps the time that closing took, and says so while it does.
class TimedSink : public GradientSink {
 public:
  TimedSink(GradientSink& inner, LanePlace& place) : inner_(inner), place_(place) {}
  void enter(NodeId node) {
    node_ = node;
    place_.set(LanePlace::Doing::Backward, node);
  }
  std::span<float> open(PieceIndex piece) override { return inner_.open(piece); }
  void close(PieceIndex piece) override {
    Clock::time_point start = Clock::now();
    place_.set(LanePlace::Doing::Updating, node_);
    inner_.close(piece);
    place_.set(LanePlace::Doing::Backward, node_);
    seconds_ += lap(start);
  }
  // Since the last call.
  double takeSeconds() { return std::exchange(seconds_, 0.0); }

 private:
  GradientSink& inner_;
  LanePlace& place_;
  NodeId node_ = 0;
  double seconds_ = 0;
};

}  // namespace

int lanePortTags(const Graph& graph) {
  return 2 * static_cast<int>(graph.nodes.size());
}

void singleThreadedKernels() {
  omp_set_num_threads(1);
}

struct PreparedWeights::Bound {
  Binder binder;
  std::vector<Action> reorders;    // by prepared weight
  std::vector<std::size_t> bytes;  // of each
};

PreparedWeights::PreparedWeights(const ExecutionPlan& plan, std::span<const float> weights)
    : weights_(weights), memory_(plan.preparedBytes() / sizeof(float)) {
  const Program& program = plan.program();
  COHORT_CHECK(weights.size() == program.layout.size(), "the arena does not fit the plan");
  bound_ = std::make_unique<Bound>(Bound{Binder(program, nullptr, memory_.data(), weights.data()), {}, {}});
  for (const PreparedWeight& weight : program.prepared) {
    const dnnl::reorder::primitive_desc decided(cpuEngine(), weight.plain.desc, cpuEngine(),
                                                weight.prepared.desc);
    bound_->reorders.push_back(bound_->binder.call(
        dnnl::reorder(decided), {{DNNL_ARG_FROM, weight.plain}, {DNNL_ARG_TO, weight.prepared}}));
    bound_->bytes.push_back(weight.prepared.desc.get_size());
  }
}

PreparedWeights::~PreparedWeights() = default;

// Weights are dealt out in order to the share with the least so far: the same for every caller, without
// talking.
void PreparedWeights::refresh(Share share) {
  RunState state;
  constexpr int kMostShares = 256;
  COHORT_CHECK(share.count <= kMostShares, "more shares than lanes can be");
  std::size_t load[kMostShares] = {};
  for (std::size_t i = 0; i < bound_->reorders.size(); ++i) {
    int least = 0;
    for (int s = 1; s < share.count; ++s) {
      if (load[s] < load[least]) least = s;
    }
    load[least] += bound_->bytes[i];
    if (least == share.index) bound_->reorders[i](state);
  }
}

struct Executor::Bound {
  Binder binder;
  RunState state;
  std::vector<BoundTask> forward;
  std::vector<BoundTask> backward;
};

Executor::Executor(const ExecutionPlan& plan, PreparedWeights& weights, std::span<float> memory,
                   std::uint64_t seed, std::optional<LanePort> port)
    : plan_(plan), weights_(weights), port_(std::move(port)), seconds_(plan.graph().nodes.size()) {
  const Program& program = plan.program();
  COHORT_CHECK(memory.size_bytes() >= plan.laneBytes(), "a lane's memory is too small for its plan");
  bound_ = std::make_unique<Bound>(Bound{
      Binder(program, memory.data(), weights.memory(), weights.weights().data(), port_ ? &*port_ : nullptr),
      {},
      {},
      {}});
  bound_->state.seed = seed;
  bound_->forward = bindAll(program.forward, bound_->binder);
  bound_->backward = bindAll(program.backward, bound_->binder);
}

Executor::~Executor() = default;

LossSum Executor::forward(const Batch& batch) {
  const std::int64_t grainSize = plan_.options().grainSize;
  const bool hasRound = plan_.graph().grainsIn(0) > 1;
  COHORT_CHECK(batch.size() == grainSize * plan_.graph().grainsIn(0),
               "the batch is not what the input holds");
  COHORT_CHECK(static_cast<std::int64_t>(batch.images.size()) == batch.size() * plan_.graph().input.count(),
               "the images do not fit the network's input");
  RunState& state = bound_->state;
  state.batch = batch;
  // Where the batch is the round's, the own grain is one of it; otherwise it is the batch.
  const std::int64_t place = plan_.place().index * grainSize;
  state.labels =
      hasRound ? batch.labels.subspan(static_cast<std::size_t>(place), static_cast<std::size_t>(grainSize))
               : batch.labels;
  state.roundPosition = hasRound ? batch.position : batch.position - place;
  state.position = state.roundPosition + place;
  state.loss = {};
  bound_->binder.setInput(batch.images.data());
  Clock::time_point since = Clock::now();
  for (const BoundTask& task : bound_->forward) {
    place_->set(LanePlace::Doing::Forward, task.node);
    task.action(state);
    seconds_[static_cast<std::size_t>(task.node)].forward += lap(since);
  }
  return state.loss;
}

void Executor::backward(GradientSink& sink) {
  COHORT_CHECK(plan_.options().training, "a plan for evaluation has no backward part");
  TimedSink timed(sink, *place_);
  bound_->state.sink = &timed;
  Clock::time_point since = Clock::now();
  for (const BoundTask& task : bound_->backward) {
    timed.enter(task.node);
    task.action(bound_->state);
    NodeSeconds& seconds = seconds_[static_cast<std::size_t>(task.node)];
    const double update = timed.takeSeconds();
    seconds.update += update;
    seconds.backward += lap(since) - update;
  }
  bound_->state.sink = nullptr;
}

}  // namespace cohort
