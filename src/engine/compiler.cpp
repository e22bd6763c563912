#include "engine/compiler.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace cohort {
namespace {

using Desc = dnnl::memory::desc;

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

bool shareBuffer(const Task& a, const Task& b) {
  return std::ranges::any_of(a.uses,
                             [&](const BufferRef& used) { return std::ranges::count(b.uses, used) > 0; });
}

// Moves tasks to where their orders want them. Begins only move up and waits only down, so that on no worker a wait comes before a
// begin that it came after: workers that order the rest differently never wait for each other in a circle.
void overlap(std::vector<Task>& tasks) {
  for (auto task = tasks.begin(); task != tasks.end(); ++task) {
    if (task->order != Task::Order::Earliest) continue;
    auto place = task;
    while (place != tasks.begin() && !shareBuffer(*(place - 1), *task)) --place;
    std::rotate(place, task, task + 1);
  }
  for (auto task = tasks.end(); task != tasks.begin();) {
    --task;
    if (task->order != Task::Order::Latest) continue;
    auto behind = task + 1;
    while (behind != tasks.end() && !shareBuffer(*behind, *task)) ++behind;
    std::rotate(task, task + 1, behind);
  }
}

}  // namespace

dnnl::primitive_attr scratchpadByCaller() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

std::optional<ChannelBlocks> channelBlocks(const Desc& desc) {
  using Tag = dnnl::memory::format_tag;
  const auto dims = desc.dims();
  if (dims.size() != 4) return std::nullopt;
  for (const auto& [tag, block] : {std::pair{Tag::nchw, 1}, {Tag::nChw8c, 8}, {Tag::nChw16c, 16}}) {
    if (desc == Desc(dims, dnnl::memory::data_type::f32, tag)) {
      return ChannelBlocks{block, (dims[1] + block - 1) / block * block};
    }
  }
  return std::nullopt;
}

Compiler::Compiler(const Graph& graph, ParameterLayout layout, GroupPlace place, const EngineOptions& options)
    : program_(std::make_unique<Program>()) {
  program_->graph = graph;
  program_->layout = std::move(layout);
  program_->place = place;
  program_->options = options;
  for (const Node& node : program_->graph.nodes) program_->reports.push_back({.node = node.id, .kernel = ""});
}

// Which nodes lead to a loss that counts here, who reads what, and which values have parameters before them.
void Compiler::analyse() {
  const Graph& g = graph();
  live_.assign(g.nodes.size(), false);
  std::vector<bool> wanted(g.values.size(), false);
  for (auto node = g.nodes.rbegin(); node != g.nodes.rend(); ++node) {
    const auto* loss = std::get_if<SoftmaxLoss>(&node->op);
    const bool counts = loss != nullptr && (training() || loss->evaluated);
    if (!counts && !wanted[static_cast<std::size_t>(node->output)]) continue;
    live_[static_cast<std::size_t>(node->id)] = true;
    for (const ValueId input : node->inputs) wanted[static_cast<std::size_t>(input)] = true;
  }

  values_.resize(g.values.size());
  onlyReader_.assign(g.values.size(), nullptr);
  needsGradient_.assign(g.values.size(), false);
  for (const Node& node : g.nodes) {
    bool needs = !parametersOf(g, node).empty();
    for (const ValueId input : node.inputs) {
      needs = needs || needsGradient_[static_cast<std::size_t>(input)];
      if (!live_[static_cast<std::size_t>(node.id)]) continue;
      Value& value = at(input);
      onlyReader_[static_cast<std::size_t>(input)] = ++value.readers == 1 ? &node : nullptr;
    }
    needsGradient_[static_cast<std::size_t>(node.output)] = needs && training();
  }
}

std::unique_ptr<const Program> Compiler::run() {
  analyse();
  define(0, {plainDesc(0), {BufferRef::Kind::Input, 0}});
  for (const Node& node : graph().nodes) {
    if (live_[static_cast<std::size_t>(node.id)]) compileNode(node);
  }
  if (training()) {
    emittingBackward_ = true;
    while (!backwardEmitters_.empty()) {
      const auto [node, emitBackward] = std::move(backwardEmitters_.back());
      backwardEmitters_.pop_back();
      const ValueId output = graph().nodes[static_cast<std::size_t>(node)].output;
      if (!needsGradient(output)) continue;  // no parameters before it: nobody computes its gradient
      emitBackward();
      at(output).gradientPending = false;
    }
  }
  finish();
  return std::move(program_);
}

void Compiler::compileNode(const Node& node) {
  const std::size_t emitters = backwardEmitters_.size();
  std::visit(Overloaded{[&](const Conv& op) { compileConv(*this, node, op); },
                        [&](const Dense& op) { compileDense(*this, node, op); },
                        [&](const Pool& op) { compilePool(*this, node, op); },
                        [&](const Relu&) { compileRelu(*this, node); },
                        [&](const Lrn& op) { compileLrn(*this, node, op); },
                        [&](const BatchNorm& op) { compileBatchNorm(*this, node, op); },
                        [&](const Dropout& op) { compileDropout(*this, node, op); },
                        [&](const Concat&) { compileConcat(*this, node); },
                        [&](const Add&) { compileAdd(*this, node); },
                        [&](const Flatten&) { compileFlatten(*this, node); },
                        [&](const SoftmaxLoss& op) { compileSoftmaxLoss(*this, node, op); },
                        [&](const Redistribute& op) { compileRedistribute(*this, node, op); }},
             node.op);
  COHORT_CHECK(backwardEmitters_.size() <= emitters + 1, "an operator has one backward part");
  if (backwardEmitters_.size() > emitters) backwardEmitters_.back().first = node.id;
  if (const auto& tensor = at(node.output).tensor) {
    program_->reports[static_cast<std::size_t>(node.id)].activationBytes = tensor->desc.get_size();
  }
}

// Lifetimes follow from the order of the tasks and what each of them touches.
void Compiler::finish() {
  overlap(program_->forward);
  overlap(program_->backward);
  int time = 0;
  for (std::vector<Task>* tasks : {&program_->forward, &program_->backward}) {
    for (const Task& task : *tasks) {
      for (const BufferRef& used : task.uses) {
        if (used.kind != BufferRef::Kind::Lane) continue;
        Lifetime& lifetime = program_->lifetimes[static_cast<std::size_t>(used.index)];
        if (lifetime.last < 0) lifetime.first = time;
        lifetime.last = time;
      }
      std::string& kernels = program_->reports[static_cast<std::size_t>(task.node)].kernel;
      if (!task.kernel.empty()) kernels += (kernels.empty() ? "" : " | ") + task.kernel;
      ++time;
    }
  }
  program_->memory = planMemory(program_->lifetimes);
}

ParameterIndex Compiler::parameter(const Node& node, const char* suffix) const {
  return layout().find(node.name + suffix);
}

BufferRef Compiler::buffer(std::size_t bytes) {
  program_->lifetimes.push_back({.bytes = bytes});
  return {BufferRef::Kind::Lane, static_cast<int>(program_->lifetimes.size()) - 1};
}

Tensor Compiler::tensor(const Desc& desc) {
  return {desc, buffer(desc.get_size())};
}

void Compiler::emit(Task task) {
  (emittingBackward_ ? program_->backward : program_->forward).push_back(std::move(task));
}

void Compiler::emitPrimitive(const Node& node, std::string kernel, const dnnl::primitive& primitive,
                             const Desc& scratchpad, std::vector<Argument> arguments) {
  if (scratchpad.get_size() > 0) arguments.push_back({DNNL_ARG_SCRATCHPAD, tensor(scratchpad)});
  std::vector<BufferRef> uses;
  uses.reserve(arguments.size());
  for (const Argument& argument : arguments) uses.push_back(argument.tensor.buffer);
  emit({node.id, std::move(kernel), std::move(uses),
        [primitive, arguments = std::move(arguments)](Binder& binder) {
          return binder.call(primitive, arguments);
        }});
}

void Compiler::onBackward(std::function<void()> emitter) {
  if (training()) backwardEmitters_.emplace_back(-1, std::move(emitter));
}

Tensor Compiler::reorder(const Node& node, const Tensor& from, const Desc& to) {
  if (from.desc == to) return from;
  const Tensor result = tensor(to);
  const dnnl::reorder::primitive_desc decided(cpuEngine(), from.desc, cpuEngine(), to, scratchpadByCaller());
  emitPrimitive(node, "reorder", dnnl::reorder(decided), decided.scratchpad_desc(),
                {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, result}});
  return result;
}

Tensor Compiler::prepare(ParameterIndex parameter, const Desc& plain, const Desc& wanted) {
  const Tensor source{plain, {BufferRef::Kind::Parameter, parameter}};
  if (plain == wanted) return source;
  for (std::size_t i = 0; i < program_->prepared.size(); ++i) {
    const PreparedWeight& known = program_->prepared[i];
    if (known.parameter == parameter && known.prepared.desc == wanted) return known.prepared;
  }
  const auto index = static_cast<int>(program_->prepared.size());
  const Tensor prepared{wanted, {BufferRef::Kind::Prepared, index}};
  program_->prepared.push_back({parameter, source, prepared, program_->preparedBytes});
  program_->preparedBytes += (wanted.get_size() + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  return prepared;
}

Tensor Compiler::value(ValueId id) const {
  COHORT_CHECK(at(id).tensor.has_value(), "a value is read before it is computed");
  return *at(id).tensor;
}

Tensor Compiler::value(const Node& reader, ValueId id, const Desc& layout) {
  const Tensor original = value(id);
  if (original.desc == layout) return original;
  for (const Tensor& copy : at(id).copies) {
    if (copy.desc == layout) return copy;
  }
  const Tensor copy = reorder(reader, original, layout);
  at(id).copies.push_back(copy);
  return copy;
}

void Compiler::define(ValueId id, Tensor tensor, ValueId aliasOf) {
  at(id).tensor = std::move(tensor);
  at(id).shared = aliasOf >= 0 && !mayOverwrite(aliasOf);
  at(id).signsRead = aliasOf >= 0 && signsAreRead(aliasOf);
}

bool Compiler::mayOverwrite(ValueId id) const {
  return id != 0 && at(id).readers <= 1 && !at(id).shared;
}

Desc Compiler::plainDesc(ValueId id) const {
  const Shape& shape = graph().shapeOf(id);
  return {{batch(id), shape.channels, shape.height, shape.width},
          dnnl::memory::data_type::f32,
          dnnl::memory::format_tag::nchw};
}

bool Compiler::fusesRelu(const Node& node) const {
  const Node* reader = onlyReader_[static_cast<std::size_t>(node.output)];
  const bool canFuse = std::holds_alternative<Conv>(node.op) || std::holds_alternative<Dense>(node.op) ||
                       std::holds_alternative<BatchNorm>(node.op) || std::holds_alternative<Add>(node.op);
  return canFuse && reader != nullptr && std::holds_alternative<Relu>(reader->op);
}

const Node* Compiler::producer(ValueId id) const {
  return id == 0 ? nullptr : &graph().nodes[static_cast<std::size_t>(id) - 1];
}

Tensor Compiler::gradient(ValueId id) const {
  COHORT_CHECK(at(id).gradient.has_value(), "a gradient is read before it is computed");
  return *at(id).gradient;
}

Tensor Compiler::gradient(const Node& reader, ValueId id, const Desc& layout) {
  // The value keeps it, so that whoever hands this buffer on is seen as still having it.
  at(id).gradient = reorder(reader, gradient(id), layout);
  return *at(id).gradient;
}

bool Compiler::gradientIsExclusive(ValueId id) const {
  const BufferRef mine = gradient(id).buffer;
  return std::ranges::count_if(values_, [&](const Value& value) {
           return value.gradientPending && value.gradient && value.gradient->buffer == mine;
         }) <= 1;
}

void Compiler::contribute(const Node& reader, ValueId id, const Tensor& part) {
  Value& value = at(id);
  if (!value.gradient) {
    value.gradient = part;
    value.gradientPending = true;
    return;
  }
  // The sum lands in the new part's buffer where that is ours alone: the older one may still be another
  // value's.
  const Tensor older = *value.gradient;
  Tensor sum = reorder(reader, part, older.desc);
  const bool partIsShared = std::ranges::any_of(values_, [&](const Value& other) {
    return other.gradientPending && other.gradient && other.gradient->buffer == sum.buffer;
  });
  const Tensor target = partIsShared ? tensor(older.desc) : sum;
  emit({reader.id,
        "",
        {older.buffer, sum.buffer, target.buffer},
        [older, sum, target](Binder& binder) -> Action {
          const float* a = binder.at(older.buffer);
          const float* b = binder.at(sum.buffer);
          float* out = binder.at(target.buffer);
          const std::size_t count = floatsIn(target.desc);
          return [a, b, out, count](RunState&) {
            for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
          };
        }});
  value.gradient = target;
}

ExecutionPlan compile(const Graph& graph, const EngineOptions& options) {
  COHORT_CHECK(options.grainSize >= 1, "a grain has at least one sample");
  return ExecutionPlan(Compiler(graph, parameterLayout(graph), {}, options).run());
}

ExecutionPlan compile(const LocalGraph& local, const EngineOptions& options) {
  COHORT_CHECK(options.grainSize >= 1, "a grain has at least one sample");
  return ExecutionPlan(Compiler(local.graph, local.layout, local.place, options).run());
}

ExecutionPlan::ExecutionPlan(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ExecutionPlan::~ExecutionPlan() = default;
ExecutionPlan::ExecutionPlan(ExecutionPlan&&) noexcept = default;
const Graph& ExecutionPlan::graph() const {
  return program_->graph;
}
const ParameterLayout& ExecutionPlan::layout() const {
  return program_->layout;
}
const EngineOptions& ExecutionPlan::options() const {
  return program_->options;
}
const GroupPlace& ExecutionPlan::place() const {
  return program_->place;
}
std::size_t ExecutionPlan::laneBytes() const {
  return program_->memory.bytes;
}
std::size_t ExecutionPlan::preparedBytes() const {
  return program_->preparedBytes;
}
std::vector<NodeReport> ExecutionPlan::nodeReports() const {
  return program_->reports;
}

}  // namespace cohort
