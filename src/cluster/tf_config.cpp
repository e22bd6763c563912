#include "cluster/tf_config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "cluster/host_list.h"
#include "cluster/named_hosts.h"
#include "cluster/words.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

const std::string kSource = "TF_CONFIG";
const std::array<std::string, 5> kTypes = {"chief", "master", "worker", "ps", "evaluator"};

template <class... Words>
[[noreturn]] void fail(fmt::format_string<Words...> sentence, Words&&... words) {
  throw UsageError(fmt::format("{} {}", kSource, fmt::format(sentence, std::forward<Words>(words)...)));
}

void requireType(const std::string& type, const char* place) {
  if (std::ranges::find(kTypes, type) != kTypes.end()) return;
  const std::string nearest = nearestWord(type, kTypes);
  fail("has {} {}, which is none of {}{}", place, inQuotes(type), fmt::join(kTypes, ", "),
       nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

Json parseObject(const std::string& text) {
  try {
    Json json = Json::parse(text);
    if (!json.is_object())
      fail("is no JSON object; write {{\"cluster\": {{...}}, \"task\": {{...}}}}, or unset it");
    return json;
  } catch (const Json::out_of_range&) {
    fail("has a number that is larger than any; write places as HOST:PORT, and an index from 0 on");
  } catch (const Json::parse_error& error) {
    fail("is no JSON from character {} on; write {{\"cluster\": {{...}}, \"task\": {{...}}}}, or unset it",
         error.byte);
  }
}

const Json& objectIn(const Json& config, const char* key, const char* example) {
  const auto found = config.find(key);
  if (found == config.end()) fail("has no \"{}\"; add \"{}\": {}", key, key, example);
  if (!found->is_object()) fail("has a \"{}\" that is no object; write \"{}\": {}", key, key, example);
  return *found;
}

// One list of the cluster; none is an empty one.
std::vector<Address> addressesOf(const Json& cluster, const std::string& type) {
  const auto found = cluster.find(type);
  if (found == cluster.end()) return {};
  if (!found->is_array())
    fail("has a \"{}\" that is no list; write \"{}\": [\"HOST:PORT\", ...]", type, type);
  if (found->size() > kMostHosts) fail("has more than {} in \"{}\"", kMostHosts, type);
  std::vector<Address> addresses;
  for (const Json& address : *found) {
    if (!address.is_string()) fail("has a member of \"{}\" that is no text; write \"HOST:PORT\"", type);
    addresses.push_back(parseAddress(address.get<std::string>(), fmt::format("{}'s \"{}\"", kSource, type)));
  }
  return addresses;
}

struct Lists {
  std::vector<Address> chief{};  // at most one
  std::vector<Address> workers{};
  std::vector<Address> servers{};
  std::vector<Address> evaluators{};
};

Lists readLists(const Json& cluster) {
  for (const auto& [type, addresses] : cluster.items()) requireType(type, "a list called");
  Lists lists{.chief = addressesOf(cluster, "chief"),
              .workers = addressesOf(cluster, "worker"),
              .servers = addressesOf(cluster, "ps"),
              .evaluators = addressesOf(cluster, "evaluator")};
  const std::vector<Address> master = addressesOf(cluster, "master");
  if (!master.empty() && !lists.chief.empty())
    fail("has a chief and a master, which are two names for one; leave one of them out");
  lists.chief.insert(lists.chief.end(), master.begin(), master.end());
  if (lists.chief.size() > 1)
    fail("has {} chiefs; leave one, and make the others workers", lists.chief.size());
  return lists;
}

struct TaskName {
  std::string type;
  int index = 0;
};

TaskName readTask(const Json& config) {
  const Json& task = objectIn(config, "task", R"({"type": "worker", "index": 0})");
  const auto type = task.find("type");
  if (type == task.end() || !type->is_string())
    fail("has no \"type\" in its \"task\"; add \"type\": \"worker\", or what this process is");
  requireType(type->get<std::string>(), "a task of type");
  const auto index = task.find("index");
  if (index == task.end())
    fail("has no \"index\" in its \"task\"; add \"index\": 0, or which of its type this is");
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  const bool isIndex = index->is_number_unsigned() && index->get<std::uint64_t>() <= kMost;
  if (!isIndex)
    fail("has the task index {}; write a whole number from 0 on, without quotes", inQuotes(index->dump()));
  return {.type = type->get<std::string>(), .index = index->get<int>()};
}

// An evaluator is rarely in the lists: the others need not know of it.
std::size_t addEvaluator(ClusterMap& cluster) {
  cluster.members.push_back({.role = Role::Evaluator});
  return cluster.members.size() - 1;
}

std::size_t ownPlace(const TaskName& task, const Lists& lists, ClusterMap& cluster) {
  const bool isChief = task.type == "chief" || task.type == "master";
  const bool isServer = task.type == "ps";
  const bool isEvaluator = task.type == "evaluator";
  const std::vector<Address>& list = isChief       ? lists.chief
                                     : isServer    ? lists.servers
                                     : isEvaluator ? lists.evaluators
                                                   : lists.workers;
  if (isEvaluator && list.empty() && task.index == 0) return addEvaluator(cluster);
  if (list.empty()) {
    fail("says that this is {} {}, and its cluster has no \"{}\"; add it, or correct the task", task.type,
         task.index, task.type);
  }
  if (static_cast<std::size_t>(task.index) >= list.size()) {
    fail("says that this is {} {}, and its cluster has 0 to {} of them; correct the index or the list",
         task.type, task.index, list.size() - 1);
  }
  if (isServer || isEvaluator) return placeOf(cluster, isServer ? Role::Server : Role::Evaluator, task.index);
  const int chiefs = isChief ? 0 : static_cast<int>(lists.chief.size());
  return placeOf(cluster, Role::Worker, chiefs + task.index);
}

}  // namespace

ClusterMap parseTfConfig(const std::string& text) {
  const Json config = parseObject(text);
  const Lists lists = readLists(objectIn(config, "cluster", R"({"worker": ["HOST:PORT", ...]})"));
  const TaskName task = readTask(config);
  std::vector<Address> workers = lists.chief;
  workers.insert(workers.end(), lists.workers.begin(), lists.workers.end());
  ClusterMap cluster = clusterOf(
      {.servers = lists.servers, .workers = std::move(workers), .evaluators = lists.evaluators}, kSource);
  cluster.me = ownPlace(task, lists, cluster);
  return cluster;
}

}  // namespace cohort
