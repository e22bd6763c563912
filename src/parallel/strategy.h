// How a network's layers are divided over workers, as values: comparable and printable.
//
// The words: a *group* of workers computes rounds of grains together; a layer that is split by *data* is computed by every
// worker of the group for its own samples, one that is split by *model* for the whole round's samples, by each worker for some
// of the layer's outputs. A *mesh* is data x model: so many groups that divide the batch, of so many workers each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace cohort {

enum class LayerSplit { Data, Model };

// For the layers whose whole name fits the regular expression (ECMAScript).
struct SplitRule {
  std::string pattern;
  LayerSplit split = LayerSplit::Data;
  bool operator==(const SplitRule&) const = default;
};

struct Strategy {
  // Of layers that no rule fits.
  LayerSplit convolutions = LayerSplit::Data;
  LayerSplit denseLayers = LayerSplit::Data;
  std::vector<SplitRule> rules;  // the first that fits counts

  static Strategy data() { return {}; }
  static Strategy model() { return {LayerSplit::Model, LayerSplit::Model, {}}; }
  // "One weird trick" (Krizhevsky 2014).
  static Strategy hybrid() { return {LayerSplit::Data, LayerSplit::Model, {}}; }
  bool operator==(const Strategy&) const = default;
};

struct Mesh {
  int data = 1;   // groups
  int model = 1;  // workers of a group
  int workers() const { return data * model; }
  bool operator==(const Mesh&) const = default;
};

// "data", "model" or "hybrid", with rules behind it: "hybrid, conv1=model".
std::string toText(const Strategy& strategy);
std::string toText(const Mesh& mesh);  // "data=2,model=2"

// UsageErrors that name `flag`.
Strategy parseStrategy(std::string_view word, const std::string& flag);
SplitRule parseSplitRule(std::string_view text, const std::string& flag);  // "PATTERN=model"
Mesh parseMesh(std::string_view text, const std::string& flag);            // "data=2,model=2", "model=4"

// By node: how it is split. Nodes without weights of their own follow those before them and have no say here.
std::vector<LayerSplit> splitsOf(const Graph& graph, const Strategy& strategy);
// Whether any layer is split by model.
bool isDivided(const Graph& graph, const Strategy& strategy);

// UsageError where a rule fits no layer, or a layer has too few outputs for a group of so many workers.
void requireDivisible(const Graph& graph, const Strategy& strategy, int workers);

// The outputs that each worker computes of a convolution or dense layer, in order: as equal as whole blocks of channels, which kernels
// compute at once, allow. A worker's part is whole groups of a grouped convolution, or lies within one. There are at least as
// many channels as workers.
std::vector<ChannelRange> divideChannels(std::int64_t channels, int workers, int groups = 1,
                                         std::int64_t block = 1);

}  // namespace cohort
