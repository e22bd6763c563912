#include "planner/lane_program.h"

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

std::size_t bytesOf(const Passage& passage, std::int64_t pixels, std::int64_t grainSamples) {
  std::int64_t channels = 0;
  for (const Passage::Channels& part : passage.channels) channels += part.count;
  return static_cast<std::size_t>(channels * pixels * passage.grains * grainSamples) * sizeof(float);
}

class ProgramWriter {
 public:
  ProgramWriter(const LocalGraph& local, const CostModel& costs, std::int64_t grainSamples)
      : local_(local),
        graph_(local.graph),
        costs_(costs),
        needGradient_(needGradients(local.graph)),
        collectiveOf_(local.graph.nodes.size(), -1),
        readersOf_(local.graph.values.size()) {
    for (const Node& node : graph_.nodes) {
      for (const ValueId in : node.inputs) readersOf_[at(in)].push_back(node.id);
      if (const auto* op = std::get_if<Redistribute>(&node.op)) addCollective(node, *op, grainSamples);
    }
  }

  LaneProgram run() {
    writeForward();
    writeBackward();
    return std::move(program_);
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  bool isCollective(NodeId node) const { return collectiveOf_[at(node)] >= 0; }

  NodeCost costOf(const Node& node) const {
    return costs_.costOf(node.name, graph_.grainsIn(node.output) == 1 ? 1 : local_.place.count);
  }

  void addCollective(const Node& node, const Redistribute& op, std::int64_t grainSamples) {
    LaneCollective collective{.node = node.id};
    const std::int64_t pixels = graph_.shapeOf(node.output).pixels();
    const int own = local_.place.index;
    for (int peer = 0; peer < local_.place.count; ++peer) {
      const bool isOther = peer != own;
      const std::size_t to = isOther ? bytesOf(passage(op, own, peer), pixels, grainSamples) : 0;
      const std::size_t from = isOther ? bytesOf(passage(op, peer, own), pixels, grainSamples) : 0;
      const bool returns = needGradient_[at(node.inputs[0])];
      collective.bytesTo[0].push_back(to);
      collective.bytesTo[1].push_back(returns ? from : 0);  // gradients go back where values came from
      collective.senders[0] += from > 0 ? 1 : 0;
      collective.senders[1] += returns && to > 0 ? 1 : 0;
    }
    collectiveOf_[at(node.id)] = static_cast<int>(program_.collectives.size());
    program_.collectives.push_back(std::move(collective));
  }

  void add(LaneTask::Kind kind, Pass pass, NodeId node) {
    program_.tasks.push_back({.kind = kind, .pass = pass, .index = collectiveOf_[at(node)]});
  }
  // Begins, or waits for, all collectives that read this value.
  void addReaders(LaneTask::Kind kind, Pass pass, ValueId value) {
    for (const NodeId reader : readersOf_[at(value)]) {
      if (isCollective(reader)) add(kind, pass, reader);
    }
  }

  void writeForward() {
    std::vector<bool> isThere(graph_.nodes.size());
    addReaders(LaneTask::Kind::Begin, Pass::Forward, 0);
    for (const Node& node : graph_.nodes) {
      if (isCollective(node.id)) continue;
      for (const ValueId in : node.inputs) {
        if (in == 0 || !isCollective(in - 1) || isThere[at(in - 1)]) continue;
        isThere[at(in - 1)] = true;
        add(LaneTask::Kind::Wait, Pass::Forward, in - 1);
      }
      program_.tasks.push_back(
          {.pass = Pass::Forward, .index = node.id, .seconds = costOf(node).forwardSeconds});
      addReaders(LaneTask::Kind::Begin, Pass::Forward, node.output);
    }
  }

  void writeBackward() {
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (isCollective(node->id)) continue;
      addReaders(LaneTask::Kind::Wait, Pass::Backward, node->output);
      writeBackward(*node);
    }
  }

  void writeBackward(const Node& node) {
    LaneTask task{.pass = Pass::Backward, .index = node.id, .seconds = costOf(node).backwardSeconds};
    // The last one, backward, that adds to what a collective brings.
    std::vector<NodeId> ready;
    for (const ValueId in : node.inputs) {
      if (in != 0 && isCollective(in - 1) && readersOf_[at(in)].front() == node.id) ready.push_back(in - 1);
    }
    const bool hasParameters = !parametersOf(graph_, node).empty();
    if (hasParameters && !ready.empty()) {
      task.seconds /= 2;
      program_.tasks.push_back(task);
    }
    task.closes = hasParameters;
    if (!hasParameters) program_.tasks.push_back(task);
    for (const NodeId collective : ready) add(LaneTask::Kind::Begin, Pass::Backward, collective);
    if (hasParameters) program_.tasks.push_back(task);
  }

  const LocalGraph& local_;
  const Graph& graph_;
  const CostModel& costs_;
  std::vector<bool> needGradient_;              // by value
  std::vector<int> collectiveOf_;               // by node; -1: it computes
  std::vector<std::vector<NodeId>> readersOf_;  // by value, in order
  LaneProgram program_;
};

}  // namespace

std::vector<bool> needGradients(const Graph& graph) {
  std::vector<bool> need(graph.values.size());
  for (const Node& node : graph.nodes) {
    need[static_cast<std::size_t>(node.output)] =
        !parametersOf(graph, node).empty() || std::ranges::any_of(node.inputs, [&](ValueId in) {
          return static_cast<bool>(need[static_cast<std::size_t>(in)]);
        });
  }
  return need;
}

LaneProgram laneProgram(const LocalGraph& local, const CostModel& costs, std::int64_t grainSamples) {
  return ProgramWriter(local, costs, grainSamples).run();
}

}  // namespace cohort
