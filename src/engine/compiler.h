// The state of one compilation: which tensor holds each value and each gradient, and the tasks so far.
// Operators (conv.cpp, dense.cpp, …) ask it for their inputs in the layout that their kernel wants, emit
// tasks, and define their outputs. Private to engine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/program.h"

namespace cohort {

class Compiler {
 public:
  Compiler(const Graph& graph, ParameterLayout layout, GroupPlace place, const EngineOptions& options);

  std::unique_ptr<const Program> run();

  const Graph& graph() const { return program_->graph; }
  const ParameterLayout& layout() const { return program_->layout; }
  std::int64_t grainSize() const { return program_->options.grainSize; }
  // Samples of a value.
  std::int64_t batch(ValueId id) const { return grainSize() * graph().grainsIn(id); }
  const GroupPlace& place() const { return program_->place; }
  bool training() const { return program_->options.training; }
  ParameterIndex parameter(const Node& node, const char* suffix) const;  // -1 where there is none

  // --- tasks and buffers
  Tensor tensor(const dnnl::memory::desc& desc);  // a new lane buffer
  BufferRef buffer(std::size_t bytes);
  void emit(Task task);
  // A primitive whose scratchpad is booked here and granted when it runs.
  void emitPrimitive(const Node& node, std::string kernel, const dnnl::primitive& primitive,
                     const dnnl::memory::desc& scratchpad, std::vector<Argument> arguments);
  // Runs after all forward tasks are emitted, in reverse order of the calls.
  void onBackward(std::function<void()> emitter);
  Tensor reorder(const Node& node, const Tensor& from,
                 const dnnl::memory::desc& to);  // `from` itself where equal
  Tensor prepare(ParameterIndex parameter, const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted);

  // --- values
  Tensor value(ValueId id) const;  // as its producer left it
  Tensor value(const Node& reader, ValueId id, const dnnl::memory::desc& layout);
  // `aliasOf`: the value shares that value's buffer.
  void define(ValueId id, Tensor tensor, ValueId aliasOf = -1);
  // The only reader of `id` may write over it: nobody else ever looks.
  bool mayOverwrite(ValueId id) const;
  // ReLU's backward part looks at which elements of its output are positive. Who overwrites such a value may
  // only make elements zero whose gradient it makes zero too.
  void readSignsInBackward(ValueId id) { at(id).signsRead = training(); }
  bool signsAreRead(ValueId id) const { return at(id).signsRead; }
  dnnl::memory::desc plainDesc(ValueId id) const;  // [batch, channels, height, width]

  // The node's output goes into a ReLU and nowhere else: the kernel does it too.
  bool fusesRelu(const Node& node) const;
  const Node* producer(ValueId id) const;  // nullptr for the input

  // --- gradients, while backward tasks are emitted
  bool needsGradient(ValueId id) const { return needsGradient_[static_cast<std::size_t>(id)]; }
  // The finished gradient of a node's output. Asked for in another layout, it stays in that one.
  Tensor gradient(ValueId id) const;
  Tensor gradient(const Node& reader, ValueId id, const dnnl::memory::desc& layout);
  // One reader's part of a value's gradient, complete once the tasks so far have run. Parts are added up in
  // the order of the calls.
  void contribute(const Node& reader, ValueId id, const Tensor& part);
  // No other value's pending gradient lies in this buffer: the caller may write over it.
  bool gradientIsExclusive(ValueId id) const;

 private:
  struct Value {
    std::optional<Tensor> tensor;
    std::vector<Tensor> copies;  // in other layouts
    int readers = 0;
    bool shared = false;     // lies in the buffer of a value that has other readers
    bool signsRead = false;  // here or in a value whose buffer it lies in
    std::optional<Tensor> gradient;
    bool gradientPending = false;  // handed out, but its producer's backward is not emitted yet
  };

  void analyse();
  void compileNode(const Node& node);
  void finish();
  Value& at(ValueId id) { return values_[static_cast<std::size_t>(id)]; }
  const Value& at(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }

  std::unique_ptr<Program> program_;
  std::vector<Value> values_;
  std::vector<bool> live_;  // by node
  std::vector<bool> needsGradient_;
  std::vector<const Node*> onlyReader_;  // by value; nullptr where several or none
  std::vector<std::pair<NodeId, std::function<void()>>> backwardEmitters_;
  bool emittingBackward_ = false;
};

// One per operator, in the files of their names.
void compileConv(Compiler& compiler, const Node& node, const Conv& op);
void compileDense(Compiler& compiler, const Node& node, const Dense& op);
void compilePool(Compiler& compiler, const Node& node, const Pool& op);
void compileBatchNorm(Compiler& compiler, const Node& node, const BatchNorm& op);
void compileLrn(Compiler& compiler, const Node& node, const Lrn& op);
void compileRelu(Compiler& compiler, const Node& node);
void compileDropout(Compiler& compiler, const Node& node, const Dropout& op);
void compileConcat(Compiler& compiler, const Node& node);
void compileAdd(Compiler& compiler, const Node& node);
void compileFlatten(Compiler& compiler, const Node& node);
void compileSoftmaxLoss(Compiler& compiler, const Node& node, const SoftmaxLoss& op);
void compileRedistribute(Compiler& compiler, const Node& node, const Redistribute& op);

// --- layouts that our own kernels can read: channels in blocks, [batch, channels / block, height, width,
// block]
struct ChannelBlocks {
  std::int64_t block = 1;           // 1: plain
  std::int64_t paddedChannels = 0;  // a multiple of block; the padding holds zeros
};
// Nothing where the layout is another one.
std::optional<ChannelBlocks> channelBlocks(const dnnl::memory::desc& desc);

dnnl::primitive_attr scratchpadByCaller();

}  // namespace cohort
