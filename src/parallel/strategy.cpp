#include "parallel/strategy.h"

#include <algorithm>
#include <charconv>
#include <regex>

#include <fmt/format.h>

#include "base/error.h"
#include "base/grain_tree.h"

namespace cohort {
namespace {

const char* toText(LayerSplit split) {
  return split == LayerSplit::Data ? "data" : "model";
}

bool hasSplit(const Node& node) {
  return std::holds_alternative<Conv>(node.op) || std::holds_alternative<Dense>(node.op);
}

std::regex expressionOf(const SplitRule& rule) {
  return std::regex(rule.pattern);
}

LayerSplit splitOf(const Node& node, const Strategy& strategy, const std::vector<std::regex>& expressions) {
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    if (std::regex_match(node.name, expressions[i])) return strategy.rules[i].split;
  }
  return std::holds_alternative<Conv>(node.op) ? strategy.convolutions : strategy.denseLayers;
}

std::vector<std::regex> expressionsOf(const Strategy& strategy) {
  std::vector<std::regex> expressions(strategy.rules.size());
  std::ranges::transform(strategy.rules, expressions.begin(), expressionOf);
  return expressions;
}

std::string layerNames(const Graph& graph) {
  constexpr std::size_t kShown = 12;
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) {
    if (hasSplit(node)) names.push_back(node.name);
  }
  const bool isLong = names.size() > kShown;
  if (isLong) names.resize(kShown);
  return fmt::format("{}{}", fmt::join(names, ", "), isLong ? ", ..." : "");
}

std::int64_t outputsOf(const Node& node) {
  if (const auto* conv = std::get_if<Conv>(&node.op)) return conv->outputs;
  return std::get<Dense>(node.op).outputs;
}

}  // namespace

std::string toText(const Strategy& strategy) {
  std::string text = strategy.convolutions == strategy.denseLayers ? toText(strategy.denseLayers)
                     : strategy.denseLayers == LayerSplit::Model   ? "hybrid"
                                                                   : "convolutions by model";
  for (const SplitRule& rule : strategy.rules)
    text += fmt::format(", {}={}", rule.pattern, toText(rule.split));
  return text;
}

std::string toText(const Mesh& mesh) {
  return fmt::format("data={},model={}", mesh.data, mesh.model);
}

Strategy parseStrategy(std::string_view word, const std::string& flag) {
  if (word == "data") return Strategy::data();
  if (word == "model") return Strategy::model();
  if (word == "hybrid") return Strategy::hybrid();
  throw UsageError(fmt::format("{} is data, model or hybrid, not '{}'", flag, word));
}

SplitRule parseSplitRule(std::string_view text, const std::string& flag) {
  const std::size_t at = text.rfind('=');
  const std::string_view split = at == std::string_view::npos ? "" : text.substr(at + 1);
  if (at == 0 || (split != "data" && split != "model")) {
    throw UsageError(fmt::format(
        "{} takes LAYER=data or LAYER=model, where LAYER is a name or a regular expression, not '{}'", flag,
        text));
  }
  SplitRule rule{std::string(text.substr(0, at)), split == "data" ? LayerSplit::Data : LayerSplit::Model};
  try {
    expressionOf(rule);
  } catch (const std::regex_error&) {
    throw UsageError(fmt::format("{}: '{}' is no regular expression", flag, rule.pattern));
  }
  return rule;
}

Mesh parseMesh(std::string_view text, const std::string& flag) {
  constexpr int kMost = 4096;
  const auto fail = [&] {
    throw UsageError(fmt::format(
        "{} takes data=D,model=M with numbers from 1 on, such as data=2,model=2, not '{}'", flag, text));
  };
  Mesh mesh;
  bool hasData = false;
  bool hasModel = false;
  for (std::string_view rest = text; !rest.empty() || !(hasData || hasModel);) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const bool isData = item.starts_with("data=");
    const bool isModel = item.starts_with("model=");
    bool& isKnown = isData ? hasData : hasModel;
    int& value = isData ? mesh.data : mesh.model;
    if ((!isData && !isModel) || isKnown) fail();
    const std::string_view digits = item.substr(item.find('=') + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 1 || value > kMost) fail();
    isKnown = true;
    if (item.size() < rest.size() && rest.size() == item.size() + 1) fail();  // "data=2,"
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
  }
  return mesh;
}

std::vector<LayerSplit> splitsOf(const Graph& graph, const Strategy& strategy) {
  const std::vector<std::regex> expressions = expressionsOf(strategy);
  std::vector<LayerSplit> splits(graph.nodes.size(), LayerSplit::Data);
  for (const Node& node : graph.nodes) {
    if (hasSplit(node)) splits[static_cast<std::size_t>(node.id)] = splitOf(node, strategy, expressions);
  }
  return splits;
}

bool isDivided(const Graph& graph, const Strategy& strategy) {
  return std::ranges::count(splitsOf(graph, strategy), LayerSplit::Model) > 0;
}

void requireDivisible(const Graph& graph, const Strategy& strategy, int workers) {
  for (const SplitRule& rule : strategy.rules) {
    const std::regex expression = expressionOf(rule);
    const bool fits = std::ranges::any_of(graph.nodes, [&](const Node& node) {
      return hasSplit(node) && std::regex_match(node.name, expression);
    });
    if (!fits) {
      throw UsageError(fmt::format("no layer that can be split is called '{}'; there are {}", rule.pattern,
                                   layerNames(graph)));
    }
  }
  const std::vector<LayerSplit> splits = splitsOf(graph, strategy);
  for (const Node& node : graph.nodes) {
    if (splits[static_cast<std::size_t>(node.id)] != LayerSplit::Model) continue;
    if (outputsOf(node) >= workers) continue;
    throw UsageError(fmt::format(
        "layer {} has {} outputs, too few to divide over {} workers; keep it whole (--parallel with "
        "--split '{}=data'), or use fewer workers (--mesh)",
        node.name, outputsOf(node), workers, node.name));
  }
}

std::vector<ChannelRange> divideChannels(std::int64_t channels, int workers, int groups, std::int64_t block) {
  COHORT_CHECK(channels >= workers && channels % groups == 0, "every worker computes something");
  std::vector<ChannelRange> parts;
  // `count` of the workers divide the channels from `first` on, cut at multiples of `unit`.
  const auto divide = [&](std::int64_t first, std::int64_t size, int count, std::int64_t unit) {
    if ((size + unit - 1) / unit < count) unit = 1;
    const auto units = static_cast<GrainIndex>((size + unit - 1) / unit);
    for (int i = 0; i < count; ++i) {
      const GrainRange mine = shareOf({0, units}, {i, count});
      parts.push_back({first + mine.first * unit, first + std::min(size, mine.last * unit)});
    }
  };
  const std::int64_t perGroup = channels / groups;
  if (groups == 1 || workers <= groups) {
    divide(0, channels, workers, groups == 1 ? block : perGroup);
  } else {
    for (int group = 0; group < groups; ++group) {
      const GrainRange members = shareOf({0, workers}, {group, groups});
      divide(group * perGroup, perGroup, members.count(), block);
    }
  }
  return parts;
}

}  // namespace cohort
