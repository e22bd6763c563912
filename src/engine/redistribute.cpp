// The one collective: each worker of the group sends what others need of its value. Backward goes the other way, and adds what
// several have sent for the same element, in the order of the workers.
//
// A message is the plain values of its passage, by grain, sample and channels. Where these lie in one stretch, they are sent from, and
// received into, the tensors themselves; otherwise through buffers that live from the begin to the wait.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "engine/compiler.h"

namespace cohort {
namespace {

// Floats of a tensor.
struct Stretch {
  std::size_t place = 0;
  std::size_t count = 0;
};

// One side of what two workers exchange, or of what a worker keeps: where it lies in this worker's tensor.
struct Cargo {
  std::vector<Stretch> stretches;
  std::size_t floats = 0;
  BufferRef packed;  // index -1: the tensor itself, in one stretch

  bool isPacked() const { return packed.index >= 0; }
};

enum class Side { From, To };

Cargo cargoOf(const Passage& passage, Side side, std::int64_t grainSize, const Shape& shape) {
  Cargo cargo;
  const bool isFrom = side == Side::From;
  const std::int64_t first = isFrom ? passage.fromGrain : passage.toGrain;
  for (std::int64_t sample = first * grainSize; sample < (first + passage.grains) * grainSize; ++sample) {
    for (const Passage::Channels& channels : passage.channels) {
      const std::int64_t channel = isFrom ? channels.from : channels.to;
      const auto place = static_cast<std::size_t>((sample * shape.channels + channel) * shape.pixels());
      const auto count = static_cast<std::size_t>(channels.count * shape.pixels());
      cargo.floats += count;
      if (!cargo.stretches.empty() && cargo.stretches.back().place + cargo.stretches.back().count == place) {
        cargo.stretches.back().count += count;
      } else {
        cargo.stretches.push_back({place, count});
      }
    }
  }
  return cargo;
}

void pack(const std::vector<Stretch>& stretches, const float* tensor, float* message) {
  for (const Stretch& stretch : stretches) {
    std::memcpy(message, tensor + stretch.place, stretch.count * sizeof(float));
    message += stretch.count;
  }
}

// From one stretch list to another of as many floats.
template <class Copy>
void transfer(std::span<const Stretch> from, const float* source, std::span<const Stretch> to, float* target,
              Copy&& copy) {
  auto there = to.begin();
  std::size_t used = 0;  // of there
  for (const Stretch& stretch : from) {
    for (std::size_t done = 0; done < stretch.count;) {
      const std::size_t count = std::min(stretch.count - done, there->count - used);
      copy(source + stretch.place + done, target + there->place + used, count);
      done += count;
      used += count;
      if (used == there->count) {
        ++there;
        used = 0;
      }
    }
  }
}

void copyFloats(const float* from, float* to, std::size_t count) {
  std::memcpy(to, from, count * sizeof(float));
}

void addFloats(const float* __restrict from, float* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

// What comes for the same element from several workers.
enum class Meeting {
  Never,      // every element comes from one
  Always,     // every worker brings all of them: the first is copied, the others are added
  Sometimes,  // all are added to zeros
};

// One direction of a node on this worker.
struct Route {
  Tensor in;
  Tensor out;
  int own = 0;
  std::vector<Cargo> outgoing{};  // by worker, of `in`; the own one is kept
  std::vector<Cargo> incoming{};  // by worker, of `out`
  Meeting meeting = Meeting::Never;
  int tag = 0;
  std::string what;  // "conv5"

  bool isAdded(int worker) const {
    return meeting == Meeting::Sometimes || (meeting == Meeting::Always && worker > 0);
  }
};

Meeting meetingOf(const Route& route) {
  const std::size_t all = floatsIn(route.out.desc);
  std::size_t sum = 0;
  bool isWhole = true;
  for (const Cargo& cargo : route.incoming) {
    sum += cargo.floats;
    isWhole = isWhole && cargo.floats == all;
  }
  return isWhole ? Meeting::Always : sum == all ? Meeting::Never : Meeting::Sometimes;
}

// Messages that cannot be the tensors' own memory get buffers. The input's memory is another one in every step.
void addBuffers(Compiler& compiler, Route& route) {
  const bool moves = route.in.buffer.kind == BufferRef::Kind::Input;
  for (int worker = 0; worker < static_cast<int>(route.outgoing.size()); ++worker) {
    if (worker == route.own) continue;
    Cargo& gone = route.outgoing[static_cast<std::size_t>(worker)];
    if (gone.floats > 0 && (gone.stretches.size() > 1 || moves))
      gone.packed = compiler.buffer(gone.floats * sizeof(float));
    Cargo& comes = route.incoming[static_cast<std::size_t>(worker)];
    if (comes.floats > 0 && (comes.stretches.size() > 1 || route.isAdded(worker)))
      comes.packed = compiler.buffer(comes.floats * sizeof(float));
  }
}

Route forwardRoute(Compiler& compiler, const Node& node, const Redistribute& op, const Tensor& in,
                   const Tensor& out) {
  const int own = compiler.place().index;
  Route route{.in = in,
              .out = out,
              .own = own,
              .tag = 2 * node.id,
              .what = layerOf(compiler.graph(), node.inputs[0])};
  for (int worker = 0; worker < compiler.place().count; ++worker) {
    route.outgoing.push_back(cargoOf(passage(op, own, worker), Side::From, compiler.grainSize(),
                                     compiler.graph().shapeOf(node.inputs[0])));
    route.incoming.push_back(cargoOf(passage(op, worker, own), Side::To, compiler.grainSize(),
                                     compiler.graph().shapeOf(node.output)));
  }
  route.meeting = Meeting::Never;
  addBuffers(compiler, route);
  return route;
}

Route backwardRoute(Compiler& compiler, const Node& node, const Redistribute& op, const Tensor& in,
                    const Tensor& out) {
  const int own = compiler.place().index;
  Route route{.in = in,
              .out = out,
              .own = own,
              .tag = 2 * node.id + 1,
              .what = fmt::format("{}'s gradient", layerOf(compiler.graph(), node.inputs[0]))};
  for (int worker = 0; worker < compiler.place().count; ++worker) {
    route.outgoing.push_back(cargoOf(passage(op, worker, own), Side::To, compiler.grainSize(),
                                     compiler.graph().shapeOf(node.output)));
    route.incoming.push_back(cargoOf(passage(op, own, worker), Side::From, compiler.grainSize(),
                                     compiler.graph().shapeOf(node.inputs[0])));
  }
  route.meeting = meetingOf(route);
  addBuffers(compiler, route);
  return route;
}

}  // namespace

// One lane's messages of a route. Used by the lane alone; its transfers' ends are told by the communication thread.
class Courier {
 public:
  Courier(const Route& route, Binder& binder)
      : route_(route),
        group_(binder.port().group),
        out_(binder.at(route.out.buffer)),
        isMissing_(route.incoming.size()) {
    const float* in = route.in.buffer.kind == BufferRef::Kind::Input ? nullptr : binder.at(route.in.buffer);
    for (int worker = 0; worker < group_.size(); ++worker) {
      const Cargo& gone = route_.outgoing[static_cast<std::size_t>(worker)];
      const Cargo& comes = route_.incoming[static_cast<std::size_t>(worker)];
      packed_.push_back(gone.isPacked() ? binder.at(gone.packed) : nullptr);
      received_.push_back(comes.isPacked() ? binder.at(comes.packed) : nullptr);
      if (worker == route_.own) continue;
      const auto sent = [this] { underWay_.fetch_sub(1, std::memory_order_acq_rel); };
      const auto received = [this, worker] {
        isMissing_[static_cast<std::size_t>(worker)].store(false, std::memory_order_relaxed);
        underWay_.fetch_sub(1, std::memory_order_acq_rel);
      };
      const int tag = binder.port().tag + route_.tag;
      if (comes.floats > 0) {
        float* place = comes.isPacked() ? received_.back() : out_ + comes.stretches.front().place;
        transfers_.push_back(&group_.addReceive(
            worker, tag, std::as_writable_bytes(std::span(place, comes.floats)), received));
      }
      if (gone.floats > 0) {
        COHORT_CHECK(gone.isPacked() || in != nullptr, "the input is sent through a buffer");
        const float* place = gone.isPacked() ? packed_.back() : in + gone.stretches.front().place;
        transfers_.push_back(
            &group_.addSend(worker, tag, std::as_bytes(std::span(place, gone.floats)), sent));
      }
    }
  }

  void begin(const float* in) {
    for (std::size_t worker = 0; worker < packed_.size(); ++worker) {
      if (packed_[worker] != nullptr) pack(route_.outgoing[worker].stretches, in, packed_[worker]);
    }
    for (std::size_t worker = 0; worker < isMissing_.size(); ++worker) {
      const bool comes = static_cast<int>(worker) != route_.own && route_.incoming[worker].floats > 0;
      isMissing_[worker].store(comes, std::memory_order_relaxed);
    }
    underWay_.store(static_cast<int>(transfers_.size()), std::memory_order_relaxed);
    for (Communicator::Transfer* transfer : transfers_) group_.start(*transfer);
  }

  void finish(const float* in) {
    if (!transfers_.empty()) {
      group_.waitUntil([this] { return underWay_.load(std::memory_order_acquire) == 0; },
                       [this] { return missing(); });
    }
    if (route_.meeting == Meeting::Sometimes) std::memset(out_, 0, route_.out.desc.get_size());
    for (int worker = 0; worker < group_.size(); ++worker) bringIn(worker, in);
  }

 private:
  std::string missing() const {
    for (int worker = 0; worker < group_.size(); ++worker) {
      if (isMissing_[static_cast<std::size_t>(worker)])
        return fmt::format("worker {}: its part of {}", group_.workerOf(worker), route_.what);
    }
    return fmt::format("another worker to take what it is sent of {}", route_.what);
  }

  void bringIn(int worker, const float* in) {
    const Cargo& comes = route_.incoming[static_cast<std::size_t>(worker)];
    const bool isOwn = worker == route_.own;
    if (comes.floats == 0 || (!isOwn && !comes.isPacked())) return;  // it came to its place by itself
    const Stretch message{0, comes.floats};
    const std::span<const Stretch> from =
        isOwn ? std::span<const Stretch>(route_.outgoing[static_cast<std::size_t>(worker)].stretches)
              : std::span(&message, 1);
    const float* source = isOwn ? in : received_[static_cast<std::size_t>(worker)];
    if (route_.isAdded(worker)) {
      transfer(from, source, comes.stretches, out_, addFloats);
    } else {
      transfer(from, source, comes.stretches, out_, copyFloats);
    }
  }

  Route route_;
  Group group_;
  float* out_;
  std::vector<float*> packed_;    // by worker; nullptr: sent from where it lies
  std::vector<float*> received_;  // by worker; nullptr: received where it belongs
  std::vector<Communicator::Transfer*> transfers_;
  std::vector<std::atomic<bool>> isMissing_;  // by worker
  std::atomic<int> underWay_ = 0;
};

namespace {

void emitRoute(Compiler& compiler, const Node& node, const Route& route) {
  std::vector<BufferRef> buffers;
  for (const std::vector<Cargo>* cargos : {&route.outgoing, &route.incoming}) {
    for (const Cargo& cargo : *cargos) {
      if (cargo.isPacked()) buffers.push_back(cargo.packed);
    }
  }
  buffers.push_back(route.in.buffer);
  buffers.push_back(route.out.buffer);
  const auto courierOf = [route](Binder& binder) {
    std::shared_ptr<Courier>& courier = binder.courier(route.tag);
    if (!courier) courier = std::make_shared<Courier>(route, binder);
    return courier;
  };
  compiler.emit({node.id, "message", buffers,
                 [=, in = route.in.buffer](Binder& binder) -> Action {
                   return [courier = courierOf(binder), in, &binder](RunState& state) {
                     courier->begin(binder.at(in, state));
                   };
                 },
                 Task::Order::Earliest});
  compiler.emit({node.id, "", buffers,
                 [=, in = route.in.buffer](Binder& binder) -> Action {
                   return [courier = courierOf(binder), in, &binder](RunState& state) {
                     courier->finish(binder.at(in, state));
                   };
                 },
                 Task::Order::Latest});
}

}  // namespace

void compileRedistribute(Compiler& compiler, const Node& node, const Redistribute& op) {
  const ValueId in = node.inputs[0];
  const Tensor input = compiler.value(node, in, compiler.plainDesc(in));
  const Tensor output = compiler.tensor(compiler.plainDesc(node.output));
  emitRoute(compiler, node, forwardRoute(compiler, node, op, input, output));
  compiler.define(node.output, output);

  compiler.onBackward([&compiler, &node, op, in] {
    if (!compiler.needsGradient(in)) return;
    const Tensor gradient = compiler.gradient(node, node.output, compiler.plainDesc(node.output));
    const Tensor inputGradient = compiler.tensor(compiler.plainDesc(in));
    emitRoute(compiler, node, backwardRoute(compiler, node, op, gradient, inputGradient));
    compiler.contribute(node, in, inputGradient);
  });
}

}  // namespace cohort
