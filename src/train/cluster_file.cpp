#include "train/cluster_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/nearest.h"
#include "train/yaml_text.h"

namespace cohort {
namespace {

constexpr int kMostHosts = 100000;
constexpr int kMostOnHost = 100000;
constexpr std::size_t kMostEntries = 10000;
constexpr double kMostSeconds = 1e9;
constexpr double kMostBandwidth = 1e15;
constexpr double kMostFactor = 1e6;

struct Unit {
  std::string_view name;
  double size = 1;
  double parts = 1;  // of a size below 1: dividing by a whole number rounds once
};
constexpr std::array kTimes{Unit{"us", 1, 1e6}, Unit{"ms", 1, 1e3}, Unit{"s", 1},
                            Unit{"m", 60},      Unit{"h", 3600},    Unit{"", 1}};
constexpr std::array kBandwidths{Unit{"bit", 1, 8},   Unit{"kbit", 125}, Unit{"Mbit", 125e3},
                                 Unit{"Gbit", 125e6}, Unit{"B", 1},      Unit{"kB", 1e3},
                                 Unit{"MB", 1e6},     Unit{"GB", 1e9},   Unit{"", 1}};

// "50us" -> 5e-5; nothing for another text.
std::optional<double> measure(std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const auto found = std::ranges::find(units, rest, &Unit::name);
  if (found == units.end()) return std::nullopt;
  return value * found->size / found->parts;
}

class ClusterReader {
 public:
  explicit ClusterReader(const std::string& source) : source_(source) {}

  ClusterModel read(std::string_view text) {
    requireYamlDocument(text, source_, "cluster");
    const YAML::Node root = YAML::Load(std::string(text));
    if (root.IsNull()) return {};
    ClusterModel model;
    try {
      readMap(root, "a cluster",
              {{"hosts", [&](const YAML::Node& node) { readHosts(node, model); }},
               {"links", [&](const YAML::Node& node) { readLink(node, model.links); }},
               {"same-host", [&](const YAML::Node& node) { readLink(node, model.sameHost); }},
               {"compute", [&](const YAML::Node& node) { readCompute(node, model.compute); }},
               {"stragglers", [&](const YAML::Node& node) { readStragglers(node, model); }},
               {"failures", [&](const YAML::Node& node) { readFailures(node, model); }}});
    } catch (const YAML::Exception& error) {
      refuse(error.mark, fmt::format("this is not YAML: {}", error.msg));
    }
    return model;
  }

 private:
  using Read = std::function<void(const YAML::Node&)>;
  struct Key {
    const char* name;
    Read read;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& sentence) const {
    throw UsageError(yamlPlace(source_, mark.line, mark.column) + sentence);
  }

  // Every key once, and no others.
  void readMap(const YAML::Node& node, const std::string& what, const std::vector<Key>& keys) {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const Key& key : keys) names.emplace_back(key.name);
    if (!node.IsMap()) refuse(node.Mark(), fmt::format("{} has the keys {}", what, fmt::join(names, ", ")));
    std::map<std::string, int> lines;
    for (const auto& entry : node) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const auto found = std::ranges::find(keys, name, &Key::name);
      if (found == keys.end()) {
        const std::string nearest = nearestWord(name, names);
        refuse(entry.first.Mark(),
               fmt::format("{} has no key '{}'{}; it has {}", what, name,
                           nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest),
                           fmt::join(names, ", ")));
      }
      const auto [first, isNew] = lines.try_emplace(name, entry.first.Mark().line + 1);
      if (!isNew) {
        refuse(entry.first.Mark(),
               fmt::format("'{}' is given a second time; the first is in line {}", name, first->second));
      }
      key_ = name;
      found->read(entry.second);
    }
  }

  void readList(const YAML::Node& node, const Read& read) {
    if (!node.IsSequence()) refuse(node.Mark(), fmt::format("'{}' is a list: '- {{…}}' a line", key_));
    if (node.size() > kMostEntries)
      refuse(node.Mark(), fmt::format("'{}' has more than {} entries", key_, kMostEntries));
    for (const YAML::Node& entry : node) read(entry);
  }

  [[noreturn]] void refuseValue(const YAML::Node& node, const std::string& wanted) const {
    refuse(node.Mark(),
           fmt::format("'{}' is {}{}", key_, wanted,
                       node.IsScalar() ? fmt::format(", not '{}'", node.Scalar()) : std::string()));
  }

  std::string text(const YAML::Node& node, const char* wanted) const {
    if (!node.IsScalar() || node.Scalar().empty()) refuseValue(node, wanted);
    return node.Scalar();
  }

  int whole(const YAML::Node& node, int least, int most) const {
    const std::string wanted = fmt::format("a whole number from {} to {}", least, most);
    const std::string words = text(node, wanted.c_str());
    int value = 0;
    const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value);
    if (error != std::errc() || end != words.data() + words.size() || value < least || value > most)
      refuseValue(node, wanted);
    return value;
  }

  double number(const YAML::Node& node, double least, double most) const {
    const std::string wanted = fmt::format("a number from {} to {}", least, most);
    const std::optional<double> value = measure(text(node, wanted.c_str()), std::array{Unit{"", 1}});
    if (!value || *value < least || *value > most) refuseValue(node, wanted);
    return *value;
  }

  double seconds(const YAML::Node& node) const {
    constexpr const char* kWanted = "a time such as 50us, 2ms, 10s, 5m or 1h";
    const std::optional<double> value = measure(text(node, kWanted), kTimes);
    if (!value || *value < 0 || *value > kMostSeconds) refuseValue(node, kWanted);
    return *value;
  }

  double bandwidth(const YAML::Node& node) const {
    constexpr const char* kWanted = "a bandwidth such as 10Gbit, 1.25GB (in a second) or unlimited";
    const std::string words = text(node, kWanted);
    if (words == "unlimited") return 0;
    const std::optional<double> value = measure(words, kBandwidths);
    // Less than that would take longer than the largest time for any network.
    if (!value || *value < 1 || *value > kMostBandwidth) refuseValue(node, kWanted);
    return *value;
  }

  void readHosts(const YAML::Node& node, ClusterModel& model) {
    int all = 0;
    readList(node, [&](const YAML::Node& entry) {
      HostModel host;
      readMap(entry, "a host",
              {{"name", [&](const YAML::Node& n) { host.name = text(n, "a host's name"); }},
               {"count", [&](const YAML::Node& n) { host.count = whole(n, 1, kMostHosts); }},
               {"cores", [&](const YAML::Node& n) { host.cores = whole(n, 1, kMostOnHost); }},
               {"speed", [&](const YAML::Node& n) { host.speed = number(n, 1 / kMostFactor, kMostFactor); }},
               {"workers", [&](const YAML::Node& n) { host.workers = whole(n, 0, kMostOnHost); }},
               {"servers", [&](const YAML::Node& n) { host.servers = whole(n, 0, kMostOnHost); }},
               {"latency", [&](const YAML::Node& n) { host.latency = seconds(n); }},
               {"bandwidth", [&](const YAML::Node& n) { host.bandwidth = bandwidth(n); }}});
      if (host.name.empty()) refuse(entry.Mark(), "a host has a 'name'");
      all += host.count;
      if (all > kMostHosts) refuse(entry.Mark(), fmt::format("these are more than {} hosts", kMostHosts));
      model.hosts.push_back(host);
    });
  }

  void readLink(const YAML::Node& node, LinkModel& link) {
    readMap(node, fmt::format("'{}'", key_),
            {{"latency", [&](const YAML::Node& n) { link.latency = seconds(n); }},
             {"bandwidth", [&](const YAML::Node& n) { link.bandwidth = bandwidth(n); }}});
  }

  void readCompute(const YAML::Node& node, ComputeModel& compute) {
    readMap(node, "'compute'",
            {{"seconds-per-sample", [&](const YAML::Node& n) { compute.secondsPerSample = seconds(n); }},
             {"seconds-per-step", [&](const YAML::Node& n) { compute.secondsPerStep = seconds(n); }},
             {"jitter", [&](const YAML::Node& n) { compute.jitter = number(n, 0, 1); }},
             {"distribution", [&](const YAML::Node& n) {
                constexpr const char* kWanted = "normal, uniform or exponential";
                const auto found = distributionCalled(text(n, kWanted));
                if (!found) refuseValue(n, kWanted);
                compute.distribution = *found;
              }}});
    if (compute.jitter > mostJitter(compute.distribution)) {
      refuse(
          node.Mark(),
          fmt::format("a jitter of {} would make some times negative: at most {} with a {} distribution; "
                      "uniform goes up to {}, exponential to {}",
                      compute.jitter, mostJitter(compute.distribution),
                      distributionName(compute.distribution), mostJitter(ComputeModel::Distribution::Uniform),
                      mostJitter(ComputeModel::Distribution::Exponential)));
    }
  }

  Key workerKey(WorkerChoice& who) {
    return {"worker", [this, &who](const YAML::Node& n) { who.worker = whole(n, 0, kMostOnHost); }};
  }
  Key hostKey(WorkerChoice& who) {
    return {"host", [this, &who](const YAML::Node& n) { who.host = text(n, "a host's name"); }};
  }
  void requireOneChoice(const YAML::Node& entry, const WorkerChoice& who) const {
    if (who.worker && !who.host.empty()) refuse(entry.Mark(), "give 'worker' or 'host', not both");
  }

  void readStragglers(const YAML::Node& node, ClusterModel& model) {
    readList(node, [&](const YAML::Node& entry) {
      StragglerModel slow;
      readMap(
          entry, "a straggler",
          {workerKey(slow.who),
           hostKey(slow.who),
           {"factor", [&](const YAML::Node& n) { slow.factor = number(n, 1 / kMostFactor, kMostFactor); }},
           {"from", [&](const YAML::Node& n) { slow.from = seconds(n); }},
           {"until", [&](const YAML::Node& n) { slow.until = seconds(n); }}});
      requireOneChoice(entry, slow.who);
      if (slow.until <= slow.from) refuse(entry.Mark(), "a straggler's 'until' comes after its 'from'");
      model.stragglers.push_back(slow);
    });
  }

  void readFailures(const YAML::Node& node, ClusterModel& model) {
    readList(node, [&](const YAML::Node& entry) {
      FailureModel failure;
      readMap(entry, "a failure",
              {workerKey(failure.who),
               hostKey(failure.who),
               {"at", [&](const YAML::Node& n) { failure.at = seconds(n); }},
               {"mean-time-between", [&](const YAML::Node& n) { failure.every = seconds(n); }},
               {"back", [&](const YAML::Node& n) {
                  failure.back.reset();
                  if (!(n.IsScalar() && n.Scalar() == "never")) failure.back = seconds(n);
                }}});
      requireOneChoice(entry, failure.who);
      if (failure.at.has_value() == failure.every.has_value()) {
        refuse(entry.Mark(), "a failure has a time: 'at', or 'mean-time-between'");
      }
      if (failure.every && *failure.every < 1e-6) {
        refuse(entry.Mark(), "a 'mean-time-between' is at least 1us");
      }
      model.failures.push_back(failure);
    });
  }

  std::string source_;
  std::string key_;  // whose value is being read
};

// The shortest text that is read as the same number.
std::string numberText(double value) {
  return fmt::format("{}", value);
}

std::string bandwidthText(double value) {
  return value == 0 ? "unlimited" : numberText(value);
}

void writeLink(YAML::Emitter& out, const LinkModel& link) {
  out << YAML::Flow << YAML::BeginMap << YAML::Key << "latency" << YAML::Value << numberText(link.latency)
      << YAML::Key << "bandwidth" << YAML::Value << bandwidthText(link.bandwidth) << YAML::EndMap;
}

void writeChoice(YAML::Emitter& out, const WorkerChoice& who) {
  if (who.worker) out << YAML::Key << "worker" << YAML::Value << *who.worker;
  if (!who.host.empty()) out << YAML::Key << "host" << YAML::Value << who.host;
}

template <class Value, class Text>
void writeKnown(YAML::Emitter& out, const char* key, const std::optional<Value>& value, Text&& text) {
  if (value) out << YAML::Key << key << YAML::Value << text(*value);
}

void writeHost(YAML::Emitter& out, const HostModel& host) {
  const auto same = [](int value) { return value; };
  out << YAML::Flow << YAML::BeginMap << YAML::Key << "name" << YAML::Value << host.name << YAML::Key
      << "count" << YAML::Value << host.count;
  writeKnown(out, "cores", host.cores, same);
  out << YAML::Key << "speed" << YAML::Value << numberText(host.speed);
  writeKnown(out, "workers", host.workers, same);
  writeKnown(out, "servers", host.servers, same);
  writeKnown(out, "latency", host.latency, numberText);
  writeKnown(out, "bandwidth", host.bandwidth, bandwidthText);
  out << YAML::EndMap;
}

}  // namespace

ClusterModel clusterFromYaml(std::string_view text, const std::string& source) {
  return ClusterReader(source).read(text);
}

ClusterModel readClusterFile(const std::filesystem::path& path) {
  return clusterFromYaml(readYamlFile(path, "cluster"), path.string());
}

std::string toYaml(const ClusterModel& model) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  if (!model.hosts.empty()) {
    out << YAML::Key << "hosts" << YAML::Value << YAML::BeginSeq;
    for (const HostModel& host : model.hosts) writeHost(out, host);
    out << YAML::EndSeq;
  }
  out << YAML::Key << "links" << YAML::Value;
  writeLink(out, model.links);
  out << YAML::Key << "same-host" << YAML::Value;
  writeLink(out, model.sameHost);
  const ComputeModel& compute = model.compute;
  out << YAML::Key << "compute" << YAML::Value << YAML::Flow << YAML::BeginMap << YAML::Key
      << "seconds-per-sample" << YAML::Value << numberText(compute.secondsPerSample) << YAML::Key
      << "seconds-per-step" << YAML::Value << numberText(compute.secondsPerStep) << YAML::Key << "jitter"
      << YAML::Value << numberText(compute.jitter) << YAML::Key << "distribution" << YAML::Value
      << std::string(distributionName(compute.distribution)) << YAML::EndMap;
  if (!model.stragglers.empty()) {
    out << YAML::Key << "stragglers" << YAML::Value << YAML::BeginSeq;
    for (const StragglerModel& slow : model.stragglers) {
      out << YAML::Flow << YAML::BeginMap;
      writeChoice(out, slow.who);
      out << YAML::Key << "factor" << YAML::Value << numberText(slow.factor) << YAML::Key << "from"
          << YAML::Value << numberText(slow.from);
      if (std::isfinite(slow.until)) out << YAML::Key << "until" << YAML::Value << numberText(slow.until);
      out << YAML::EndMap;
    }
    out << YAML::EndSeq;
  }
  if (!model.failures.empty()) {
    out << YAML::Key << "failures" << YAML::Value << YAML::BeginSeq;
    for (const FailureModel& failure : model.failures) {
      out << YAML::Flow << YAML::BeginMap;
      writeChoice(out, failure.who);
      writeKnown(out, "at", failure.at, numberText);
      writeKnown(out, "mean-time-between", failure.every, numberText);
      out << YAML::Key << "back" << YAML::Value << (failure.back ? numberText(*failure.back) : "never");
      out << YAML::EndMap;
    }
    out << YAML::EndSeq;
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace cohort
