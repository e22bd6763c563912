#include "planner/layer_choice.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "planner/lane_program.h"

namespace cohort {
namespace {

enum class Layout : std::uint8_t {
  Input,      // samples are read wherever they are needed
  Own,        // all channels of own samples
  Part,       // one stretch of channels, of the round's samples
  Scattered,  // several stretches of them
  Copies      // everything, on every worker; what divided layers read, never what one makes
};

// A value that is still read, and the layouts that it has been brought to besides its own, as bits.
struct Held {
  Layout layout = Layout::Input;
  std::uint8_t moved = 0;
  auto operator<=>(const Held&) const =
      default;  // NOLINT(modernize-use-nullptr): of what the compiler writes
};

using State = std::vector<Held>;  // by value; the default for those that nobody reads any more

// What a step takes, piece by piece.
class AdditiveCost {
 public:
  AdditiveCost(const Graph& graph, const Mesh& mesh, const StepSettings& settings, const CostModel& costs,
               const WorkerNetwork& network, double exchangeShare)
      : graph_(graph),
        mesh_(mesh),
        settings_(settings),
        costs_(costs),
        exchangeShare_(exchangeShare),
        needGradient_(needGradients(graph)) {
    const int most = (settings.grains + mesh.data - 1) / mesh.data;
    rounds_ = (most + mesh.model - 1) / mesh.model;
    const int lanes = std::min(settings.lanes, rounds_);
    laneRounds_ = (rounds_ + lanes - 1) / lanes;
    std::vector<int> workers(static_cast<std::size_t>(mesh.workers()));
    std::iota(workers.begin(), workers.end(), 0);
    everywhere_ = network.slowestLink(workers);
    for (const int worker : workers) speed_ = std::min(speed_, network.host(worker).speed);
    workers.resize(static_cast<std::size_t>(mesh.model));
    inGroup_ = network.slowestLink(workers);
  }

  double computing(const Node& node, bool isDivided) const {
    const NodeCost cost = costs_.costOf(node.name, isDivided ? mesh_.model : 1);
    return laneRounds_ * (cost.forwardSeconds + cost.backwardSeconds) / speed_;
  }

  double moving(ValueId value, Layout from, Layout to) const {
    if (from == Layout::Input) return 0;
    const double grain = static_cast<double>(graph_.shapeOf(value).count() * settings_.grainSamples) * 4;
    // To copies a worker gives as much as a grain to each other; otherwise as much as a grain is shared among all.
    const double bytes = grain * (mesh_.model - 1) / (to == Layout::Copies ? 1 : mesh_.model);
    const double once = rounds_ * transferSeconds(static_cast<std::size_t>(bytes), inGroup_.bandwidth) +
                        laneRounds_ * inGroup_.latency;
    return needGradient_[static_cast<std::size_t>(value)] ? 2 * once : once;
  }

  double exchanging(const Node& node, bool isDivided) const {
    double floats = 0;
    for (const ParameterSpec& spec : parametersOf(graph_, node)) floats += static_cast<double>(spec.count());
    if (isDivided) floats /= mesh_.model;
    const double sharers = isDivided ? mesh_.data : mesh_.workers();
    const double bytes = 2 * floats * (sharers - 1) / sharers * settings_.wireFloatBytes;
    return exchangeShare_ * (transferSeconds(static_cast<std::size_t>(bytes), everywhere_.bandwidth) +
                             costs_.updateSeconds(static_cast<std::size_t>(floats / sharers)) / speed_);
  }

 private:
  const Graph& graph_;
  const Mesh& mesh_;
  const StepSettings& settings_;
  const CostModel& costs_;
  double exchangeShare_;
  std::vector<bool> needGradient_;
  int rounds_ = 1;
  int laneRounds_ = 1;  // of the lane that has most
  double speed_ = std::numeric_limits<double>::infinity();
  LinkModel everywhere_;
  LinkModel inGroup_;
};

// Follows src/parallel/partition.cpp, with layouts instead of spreads.
class LayoutRules {
 public:
  LayoutRules(const Graph& graph, int workers, const AdditiveCost& cost)
      : graph_(graph), workers_(workers), cost_(cost) {}

  // Adds the node to the state; returns what it costs.
  double add(const Node& node, LayerSplit split, State& state) const {
    const bool isModel = split == LayerSplit::Model;
    const Layout input = layoutFor(node, isModel, state);
    const Layout output = isModel ? Layout::Part : outputOf(node, input);
    const bool isDivided = output == Layout::Part || output == Layout::Scattered;
    double seconds = cost_.computing(node, isDivided) + cost_.exchanging(node, isDivided);
    if (!std::holds_alternative<Concat>(node.op) || !isDivided) {
      for (const ValueId in : node.inputs) seconds += bring(in, input, state);
    }
    held(state, node.output) = {.layout = output};
    return seconds;
  }

 private:
  static Held& held(State& state, ValueId value) { return state[static_cast<std::size_t>(value)]; }
  static Layout layoutOf(const State& state, ValueId value) {
    return state[static_cast<std::size_t>(value)].layout;
  }
  static bool isParts(Layout layout) { return layout == Layout::Part || layout == Layout::Scattered; }

  // What all inputs are brought to. (Divided ones of a Concat stay where they are.)
  Layout layoutFor(const Node& node, bool isModel, const State& state) const {
    if (isModel) return readByDividedLayer(node);
    const Layout first = layoutOf(state, node.inputs[0]);
    const bool staysInParts = std::holds_alternative<Relu>(node.op) ||
                              std::holds_alternative<Pool>(node.op) ||
                              std::holds_alternative<Flatten>(node.op);
    const bool staysInOnePart =
        std::holds_alternative<BatchNorm>(node.op) || std::holds_alternative<Dropout>(node.op);
    if (staysInParts && isParts(first)) return first;
    if (staysInOnePart && first == Layout::Part) return first;
    if (std::holds_alternative<Flatten>(node.op) && node.inputs[0] == 0) return Layout::Input;
    if (std::holds_alternative<Concat>(node.op)) {
      const bool areParts =
          std::ranges::all_of(node.inputs, [&](ValueId in) { return isParts(layoutOf(state, in)); });
      return areParts ? Layout::Scattered : Layout::Own;
    }
    if (std::holds_alternative<Add>(node.op)) return layoutForSum(node, state);
    return Layout::Own;
  }

  Layout layoutForSum(const Node& node, const State& state) const {
    const auto channels = [&](ValueId value) { return graph_.shapeOf(value).channels; };
    const bool isEven = std::ranges::all_of(
        node.inputs, [&](ValueId in) { return channels(in) == channels(node.inputs[0]); });
    const auto divided =
        std::ranges::find_if(node.inputs, [&](ValueId in) { return isParts(layoutOf(state, in)); });
    return isEven && divided != node.inputs.end() ? layoutOf(state, *divided) : Layout::Own;
  }

  // Whole groups of a convolution read their own channels only.
  Layout readByDividedLayer(const Node& node) const {
    const auto* conv = std::get_if<Conv>(&node.op);
    return conv != nullptr && conv->groups > 1 && conv->groups % workers_ == 0 ? Layout::Part
                                                                               : Layout::Copies;
  }

  static Layout outputOf(const Node& node, Layout input) {
    if (std::holds_alternative<Concat>(node.op) && isParts(input)) return Layout::Scattered;
    return input;
  }

  double bring(ValueId value, Layout to, State& state) const {
    Held& here = held(state, value);
    const auto bit = static_cast<std::uint8_t>(1U << static_cast<unsigned>(to));
    if (here.layout == to || (here.moved & bit) != 0) return 0;
    here.moved = static_cast<std::uint8_t>(here.moved | bit);
    return cost_.moving(value, here.layout, to);
  }

  const Graph& graph_;
  int workers_;
  const AdditiveCost& cost_;
};

// The best way into a state.
struct Way {
  double seconds = 0;
  int before = -1;  // among the ways of the node before
  LayerSplit split = LayerSplit::Data;
};

// By value: the last node that reads it; -1: nobody.
std::vector<NodeId> lastReaders(const Graph& graph) {
  std::vector<NodeId> last(graph.values.size(), -1);
  for (const Node& node : graph.nodes) {
    for (const ValueId in : node.inputs) last[static_cast<std::size_t>(in)] = node.id;
  }
  return last;
}

void forget(State& state, const Node& node, const std::vector<NodeId>& lastReader) {
  const auto drop = [&](ValueId value) {
    if (lastReader[static_cast<std::size_t>(value)] <= node.id) state[static_cast<std::size_t>(value)] = {};
  };
  for (const ValueId in : node.inputs) drop(in);
  drop(node.output);
}

}  // namespace

bool canDivide(const Node& node, int workers) {
  if (const auto* conv = std::get_if<Conv>(&node.op)) return conv->outputs >= workers;
  const auto* dense = std::get_if<Dense>(&node.op);
  return dense != nullptr && dense->outputs >= workers;
}

LayerChoice chooseLayers(const Graph& graph, const Mesh& mesh, const StepSettings& settings,
                         const CostModel& costs, const WorkerNetwork& network, double exchangeShare) {
  const AdditiveCost cost(graph, mesh, settings, costs, network, exchangeShare);
  const LayoutRules rules(graph, mesh.model, cost);
  const std::vector<NodeId> lastReader = lastReaders(graph);
  std::map<State, int> states{{State(graph.values.size()), 0}};  // and their ways, of the last node
  std::vector<std::vector<Way>> ways{{Way{}}};                   // by node, behind the begin
  for (const Node& node : graph.nodes) {
    std::map<State, int> next;
    std::vector<Way> nextWays;
    for (const auto& [state, index] : states) {
      for (const LayerSplit split : {LayerSplit::Data, LayerSplit::Model}) {
        if (split == LayerSplit::Model && !canDivide(node, mesh.model)) continue;
        State after = state;
        const double before = ways.back()[static_cast<std::size_t>(index)].seconds;
        const Way way{before + rules.add(node, split, after), index, split};
        forget(after, node, lastReader);
        const auto [place, isNew] = next.try_emplace(std::move(after), static_cast<int>(nextWays.size()));
        if (isNew) {
          nextWays.push_back(way);
        } else if (Way& known = nextWays[static_cast<std::size_t>(place->second)];
                   way.seconds < known.seconds) {
          known = way;
        }
      }
    }
    states = std::move(next);
    ways.push_back(std::move(nextWays));
  }
  auto best = std::ranges::min_element(ways.back(), {}, &Way::seconds);
  LayerChoice choice{.splits = std::vector<LayerSplit>(graph.nodes.size()), .seconds = best->seconds};
  Way way = *best;
  for (std::size_t node = graph.nodes.size(); node > 0; --node) {
    choice.splits[node - 1] = way.split;
    way = ways[node - 1][static_cast<std::size_t>(way.before)];
  }
  return choice;
}

}  // namespace cohort
