#include "parallel/partition.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

// Channels that convolution kernels compute at once.
constexpr std::int64_t kChannelBlock = 16;

using Samples = Spread::Samples;

// One range each.
std::vector<std::vector<ChannelRange>> listed(const std::vector<ChannelRange>& ranges) {
  std::vector<std::vector<ChannelRange>> lists;
  lists.reserve(ranges.size());
  for (const ChannelRange& range : ranges) lists.push_back({range});
  return lists;
}

Spread everything(Samples samples, std::int64_t channels, int workers) {
  return {samples,
          std::vector<std::vector<ChannelRange>>(static_cast<std::size_t>(workers), {{0, channels}})};
}

bool isOneRangeEach(const Spread& spread) {
  return std::ranges::all_of(spread.channels, [](const auto& ranges) { return ranges.size() == 1; });
}

// Builds one worker's graph, node by node. Spreads are those of all workers, so that all build the same collectives.
class Partition {
 public:
  Partition(const Graph& graph, const Strategy& strategy, GroupPlace place)
      : graph_(graph), splits_(splitsOf(graph, strategy)), place_(place) {
    local_.place = place;
    local_.graph.input = graph.input;
    local_.graph.classes = graph.classes;
    addValue(graph.input, inputSpread());
    values_.push_back(0);
  }

  LocalGraph run() {
    for (const Node& node : graph_.nodes) add(node);
    layOut();
    return std::move(local_);
  }

 private:
  const Shape& shapeOf(ValueId whole) const { return graph_.shapeOf(whole); }
  std::int64_t channelsOf(ValueId whole) const { return shapeOf(whole).channels; }
  const Spread& spreadOf(ValueId whole) const { return spreads_[index(local(whole))]; }
  ValueId local(ValueId whole) const { return values_[index(whole)]; }
  static std::size_t index(int value) { return static_cast<std::size_t>(value); }
  bool isModel(const Node& node) const { return splits_[index(node.id)] == LayerSplit::Model; }

  Spread own(ValueId whole) const { return everything(Samples::Own, channelsOf(whole), place_.count); }
  Spread copies(ValueId whole) const { return everything(Samples::Round, channelsOf(whole), place_.count); }

  // The input, or the input made flat.
  bool isInput(ValueId whole) const {
    if (whole == 0) return true;
    const Node& producer = graph_.nodes[index(whole - 1)];
    return std::holds_alternative<Flatten>(producer.op) && producer.inputs[0] == 0;
  }

  // Samples can be read wherever they are needed.
  Spread inputSpread() const {
    const bool forRound = std::ranges::any_of(
        graph_.nodes, [&](const Node& node) { return isModel(node) && isInput(node.inputs[0]); });
    return everything(forRound ? Samples::Round : Samples::Own, graph_.input.channels, place_.count);
  }

  ValueId addValue(const Shape& whole, const Spread& spread) {
    Shape shape = whole;
    shape.channels = cohort::channelsOf(spread, place_.index);
    local_.graph.values.push_back(shape);
    local_.graph.grains.push_back(grainsOf(spread));
    spreads_.push_back(spread);
    return static_cast<ValueId>(spreads_.size()) - 1;
  }

  ValueId append(std::string name, Op op, std::vector<ValueId> inputs, const Shape& whole,
                 const Spread& spread) {
    const auto id = static_cast<NodeId>(local_.graph.nodes.size());
    const ValueId output = addValue(whole, spread);
    local_.graph.nodes.push_back({id, std::move(name), std::move(op), std::move(inputs), output});
    return output;
  }

  // "from-conv5", and "from-conv5-2" for what moves of the same layer again.
  std::string collectiveName(ValueId whole) {
    const std::string layer = layerOf(graph_, whole);
    const int number = ++collectives_[layer];
    return number == 1 ? fmt::format("from-{}", layer) : fmt::format("from-{}-{}", layer, number);
  }

  // A whole value in the wanted spread.
  ValueId need(ValueId whole, const Spread& wanted) {
    if (spreadOf(whole) == wanted) return local(whole);
    std::vector<ValueId>& moved = redistributed_[whole];
    for (const ValueId known : moved) {
      if (spreads_[index(known)] == wanted) return known;
    }
    moved.push_back(append(collectiveName(whole), Redistribute{spreadOf(whole), wanted}, {local(whole)},
                           shapeOf(whole), wanted));
    return moved.back();
  }

  // The value as it is; a copy of the input, which nobody divides, as own samples.
  Spread asItIs(ValueId whole) const {
    const Spread& spread = spreadOf(whole);
    const bool isCopied = spread.samples == Samples::Round && spread.hasSameChannels();
    return isCopied ? own(whole) : spread;
  }

  // Channel by channel, whichever a worker has; batch norm's parameters must lie together.
  bool staysAsItIs(const Node& node) const {
    return std::holds_alternative<Relu>(node.op) || std::holds_alternative<Pool>(node.op) ||
           (std::holds_alternative<BatchNorm>(node.op) && isOneRangeEach(spreadOf(node.inputs[0])));
  }

  void addLike(const Node& node, const Spread& spread, Op op) {
    values_.push_back(
        append(node.name, std::move(op), {need(node.inputs[0], spread)}, shapeOf(node.output), spread));
  }
  // On own samples, all channels.
  void addWhole(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId in : node.inputs) inputs.push_back(need(in, own(in)));
    values_.push_back(append(node.name, node.op, std::move(inputs), shapeOf(node.output), own(node.output)));
  }

  void add(const Node& node);
  void addConv(const Node& node, Conv op);
  void addDense(const Node& node, Dense op);
  void addConcat(const Node& node);
  void addSum(const Node& node);
  void addFlatten(const Node& node);
  void layOut();

  const Graph& graph_;
  std::vector<LayerSplit> splits_;
  GroupPlace place_;
  LocalGraph local_;
  std::vector<Spread> spreads_;  // by local value
  std::vector<ValueId> values_;  // by whole value: the local one as its node made it
  std::map<ValueId, std::vector<ValueId>> redistributed_;  // by whole value: the local ones in other spreads
  std::map<std::string, int> collectives_;                 // by layer
};

void Partition::add(const Node& node) {
  const Spread& input = spreadOf(node.inputs[0]);
  if (const auto* conv = std::get_if<Conv>(&node.op); conv != nullptr && isModel(node)) {
    addConv(node, *conv);
  } else if (const auto* dense = std::get_if<Dense>(&node.op); dense != nullptr && isModel(node)) {
    addDense(node, *dense);
  } else if (staysAsItIs(node)) {
    addLike(node, asItIs(node.inputs[0]), node.op);
  } else if (const auto* dropout = std::get_if<Dropout>(&node.op);
             dropout != nullptr && isOneRangeEach(input)) {
    const Spread spread = asItIs(node.inputs[0]);
    Dropout op = *dropout;
    op.firstChannel = spread.channels[index(place_.index)].front().first;
    addLike(node, spread, op);
  } else if (std::holds_alternative<Flatten>(node.op)) {
    addFlatten(node);
  } else if (std::holds_alternative<Concat>(node.op)) {
    addConcat(node);
  } else if (std::holds_alternative<Add>(node.op)) {
    addSum(node);
  } else {
    addWhole(node);
  }
}

void Partition::addConv(const Node& node, Conv op) {
  const std::vector<ChannelRange> parts = divideChannels(op.outputs, place_.count, op.groups, kChannelBlock);
  const std::int64_t outputsPerGroup = op.outputs / op.groups;
  const std::int64_t inputsPerGroup = channelsOf(node.inputs[0]) / op.groups;
  std::vector<ChannelRange> inputs;
  inputs.reserve(parts.size());
  for (const ChannelRange& part : parts) {
    inputs.push_back({part.first / outputsPerGroup * inputsPerGroup,
                      (part.last + outputsPerGroup - 1) / outputsPerGroup * inputsPerGroup});
  }
  const ValueId input = need(node.inputs[0], {Samples::Round, listed(inputs)});
  op.groups = static_cast<int>(inputs[index(place_.index)].count() / inputsPerGroup);
  op.outputs = static_cast<int>(parts[index(place_.index)].count());
  values_.push_back(append(node.name, op, {input}, shapeOf(node.output), {Samples::Round, listed(parts)}));
}

void Partition::addDense(const Node& node, Dense op) {
  const std::vector<ChannelRange> parts = divideChannels(op.outputs, place_.count);
  op.outputs = static_cast<int>(parts[index(place_.index)].count());
  const ValueId input = need(node.inputs[0], copies(node.inputs[0]));
  values_.push_back(append(node.name, op, {input}, shapeOf(node.output), {Samples::Round, listed(parts)}));
}

// A worker's parts of divided inputs, one behind the other, are its part of the output.
void Partition::addConcat(const Node& node) {
  const bool areDivided =
      std::ranges::all_of(node.inputs, [&](ValueId in) { return asItIs(in).samples == Samples::Round; });
  if (!areDivided) return addWhole(node);
  Spread output{Samples::Round, std::vector<std::vector<ChannelRange>>(index(place_.count))};
  std::vector<ValueId> inputs;
  std::int64_t first = 0;
  for (const ValueId in : node.inputs) {
    inputs.push_back(local(in));
    const Spread& spread = spreadOf(in);
    for (std::size_t worker = 0; worker < spread.channels.size(); ++worker) {
      for (const ChannelRange& range : spread.channels[worker])
        output.channels[worker].push_back({first + range.first, first + range.last});
    }
    first += channelsOf(in);
  }
  values_.push_back(append(node.name, node.op, std::move(inputs), shapeOf(node.output), output));
}

// Where a divided input is, the others come too; narrower inputs would be missing on some workers.
void Partition::addSum(const Node& node) {
  const bool isEven = std::ranges::all_of(
      node.inputs, [&](ValueId in) { return channelsOf(in) == channelsOf(node.inputs[0]); });
  const auto divided =
      std::ranges::find_if(node.inputs, [&](ValueId in) { return asItIs(in).samples == Samples::Round; });
  if (!isEven || divided == node.inputs.end()) return addWhole(node);
  const Spread spread = spreadOf(*divided);
  std::vector<ValueId> inputs;
  for (const ValueId in : node.inputs) inputs.push_back(need(in, spread));
  values_.push_back(append(node.name, node.op, std::move(inputs), shapeOf(node.output), spread));
}

void Partition::addFlatten(const Node& node) {
  const ValueId in = node.inputs[0];
  const Spread before = in == 0 ? spreadOf(in) : asItIs(in);
  const std::int64_t pixels = shapeOf(in).pixels();
  Spread after = before;
  for (auto& ranges : after.channels) {
    for (ChannelRange& range : ranges) range = {range.first * pixels, range.last * pixels};
  }
  values_.push_back(append(node.name, node.op, {need(in, before)}, shapeOf(node.output), after));
}

// Rows lie together in the arena: a worker's part of a parameter is one stretch of it.
void Partition::layOut() {
  const ParameterLayout whole = parameterLayout(graph_);
  std::vector<ParameterLayout::Part> parts;
  for (auto node = local_.graph.nodes.rbegin(); node != local_.graph.nodes.rend(); ++node) {
    const std::vector<ChannelRange>& channels = spreads_[index(node->output)].channels[index(place_.index)];
    for (ParameterSpec& spec : parametersOf(local_.graph, *node)) {
      const Parameter& all = whole.at(whole.find(spec.name));
      const std::size_t row = all.size / static_cast<std::size_t>(all.shape.front());
      local_.isPrivate.push_back(spec.shape.front() < all.shape.front());
      parts.push_back({std::move(spec), all.offset + static_cast<std::size_t>(channels.front().first) * row});
    }
  }
  local_.layout = ParameterLayout(std::move(parts), whole.size());
}

}  // namespace

LocalGraph partition(const Graph& graph, const Strategy& strategy, GroupPlace place) {
  COHORT_CHECK(place.index >= 0 && place.index < place.count, "a worker is one of its group");
  requireDivisible(graph, strategy, place.count);
  return Partition(graph, strategy, place).run();
}

std::string layerOf(const Graph& graph, ValueId value) {
  while (value != 0) {
    const Node& producer = graph.nodes[static_cast<std::size_t>(value - 1)];
    if (producer.inputs.size() > 1 || !parametersOf(graph, producer).empty()) return producer.name;
    value = producer.inputs.front();
  }
  return "input";
}

std::int64_t channelsOf(const Spread& spread, int worker) {
  std::int64_t channels = 0;
  for (const ChannelRange& range : spread.channels[static_cast<std::size_t>(worker)])
    channels += range.count();
  return channels;
}

int grainsOf(const Spread& spread) {
  return spread.samples == Samples::Own ? 1 : static_cast<int>(spread.channels.size());
}

Passage passage(const Redistribute& op, int from, int to) {
  const bool fromOwn = op.from.samples == Samples::Own;
  const bool toOwn = op.to.samples == Samples::Own;
  // Where all have the same, nobody needs another's.
  const bool isCopied = !fromOwn && op.from.hasSameChannels();
  if (from != to && (isCopied || (fromOwn && toOwn))) return {};
  Passage passage{.fromGrain = toOwn && !fromOwn ? to : 0,
                  .toGrain = fromOwn && !toOwn ? from : 0,
                  .grains = fromOwn || toOwn ? 1 : static_cast<int>(op.from.channels.size()),
                  .channels = {}};
  std::int64_t source = 0;
  for (const ChannelRange& have : op.from.channels[static_cast<std::size_t>(from)]) {
    std::int64_t target = 0;
    for (const ChannelRange& want : op.to.channels[static_cast<std::size_t>(to)]) {
      const std::int64_t first = std::max(have.first, want.first);
      const std::int64_t last = std::min(have.last, want.last);
      if (first < last) {
        passage.channels.push_back({source + first - have.first, target + first - want.first, last - first});
      }
      target += want.count();
    }
    source += have.count();
  }
  return passage.channels.empty() ? Passage{} : passage;
}

}  // namespace cohort
