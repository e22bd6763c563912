#include "cluster/tf_config.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "cluster/host_flags.h"

namespace cohort {
namespace {

std::string configOf(const std::string& cluster, const std::string& task) {
  return R"({"cluster": )" + cluster + R"(, "task": )" + task + "}";
}

std::string taskOf(const std::string& type, int index) {
  return R"({"type": ")" + type + R"(", "index": )" + std::to_string(index) + "}";
}

const std::string kCluster = R"({"chief": ["c:1"], "worker": ["w:1", "w:2"], "ps": ["p:1"]})";

std::string refusal(const std::string& text) {
  return errorOf<UsageError>([&] { parseTfConfig(text); });
}

// Of a good task in this cluster, and of this task in a good cluster.
std::string clusterRefusal(const std::string& cluster) {
  return refusal(configOf(cluster, taskOf("worker", 0)));
}
std::string taskRefusal(const std::string& task) {
  return refusal(configOf(kCluster, task));
}

TEST(TfConfig, MakesTheChiefWorkerZero) {
  const std::vector<Member> members = {
      {.role = Role::Server, .index = 0, .host = "p", .port = 1},
      {.role = Role::Worker, .index = 0, .host = "c", .port = 1},
      {.role = Role::Worker, .index = 1, .host = "w", .port = 1},
      {.role = Role::Worker, .index = 2, .host = "w", .localIndex = 1, .port = 2}};
  const auto me = [](const std::string& type, int index) {
    return parseTfConfig(configOf(kCluster, taskOf(type, index))).me;
  };
  EXPECT_EQ(parseTfConfig(configOf(kCluster, taskOf("chief", 0))), (ClusterMap{.members = members, .me = 1}));
  EXPECT_EQ(me("ps", 0), 0u);
  EXPECT_EQ(me("worker", 0), 2u);
  EXPECT_EQ(me("worker", 1), 3u);
}

TEST(TfConfig, TakesAMasterForAChief) {
  const std::string cluster = R"({"master": ["c:1"], "worker": ["w:1"]})";
  EXPECT_EQ(nameOf(parseTfConfig(configOf(cluster, taskOf("master", 0))).self()), "worker 0");
  EXPECT_EQ(nameOf(parseTfConfig(configOf(cluster, taskOf("worker", 0))).self()), "worker 1");
}

TEST(TfConfig, IsTheSameClusterAsFlags) {
  const ClusterMap flags =
      clusterOf(HostFlags{.psHosts = "p:1", .workerHosts = "a:1,b:1", .jobName = "worker", .taskIndex = 1});
  EXPECT_EQ(parseTfConfig(configOf(R"({"worker": ["a:1", "b:1"], "ps": ["p:1"]})", taskOf("worker", 1))),
            flags);
}

TEST(TfConfig, LeavesAnEvaluatorOutsideOfTheTraining) {
  const ClusterMap cluster = parseTfConfig(configOf(kCluster, taskOf("evaluator", 0)));
  EXPECT_EQ(cluster.self(), (Member{.role = Role::Evaluator, .index = 0}));
  EXPECT_EQ(cluster.count(Role::Worker), 3u);
  const ClusterMap named =
      parseTfConfig(configOf(R"({"worker": ["a:1"], "evaluator": ["e:1"]})", taskOf("evaluator", 0)));
  EXPECT_EQ(named.self(), (Member{.role = Role::Evaluator, .index = 0, .host = "e", .port = 1}));
}

TEST(TfConfig, IgnoresWhatTellsNothingOfPlaces) {
  const std::string text =
      R"({"cluster": {"worker": ["a:1"], "ps": []}, "environment": "cloud", "job": {"x": [1]},
                               "task": {"type": "worker", "index": 0, "trial": "3", "cloud": null}})";
  EXPECT_EQ(nameOf(parseTfConfig(text).self()), "worker 0");
}

TEST(TfConfig, ThatIsNoObjectIsRefused) {
  const std::string advice = R"(write {"cluster": {...}, "task": {...}}, or unset it)";
  EXPECT_EQ(refusal(""), "TF_CONFIG is no JSON from character 1 on; " + advice);
  EXPECT_EQ(refusal("{'cluster': {}}"), "TF_CONFIG is no JSON from character 2 on; " + advice);
  EXPECT_MENTIONS(refusal(R"({"cluster": {})"), "is no JSON from character 15 on");
  EXPECT_MENTIONS(refusal("{}x"), "is no JSON");
  EXPECT_MENTIONS(refusal("{\"\xff\": 1}"), "is no JSON");
  for (const char* text : {"[]", "null", "3", "\"cluster\""})
    EXPECT_EQ(refusal(text), "TF_CONFIG is no JSON object; " + advice);
  EXPECT_MENTIONS(refusal(std::string(1'000'000, '[')), "is no JSON");
  EXPECT_BEGINS(refusal("1e999"), "TF_CONFIG has a number that is larger than any");
}

TEST(TfConfig, NeedsACluster) {
  EXPECT_EQ(refusal("{}"), R"(TF_CONFIG has no "cluster"; add "cluster": {"worker": ["HOST:PORT", ...]})");
  EXPECT_BEGINS(refusal(R"({"cluster": ["a:1"]})"), R"(TF_CONFIG has a "cluster" that is no object)");
  EXPECT_EQ(clusterRefusal("{}"), "TF_CONFIG names no worker; give at least one");
  EXPECT_EQ(clusterRefusal(R"({"ps": ["a:1"], "worker": []})"),
            "TF_CONFIG names no worker; give at least one");
  EXPECT_EQ(clusterRefusal(R"({"wroker": ["a:1"]})"),
            "TF_CONFIG has a list called 'wroker', which is none of chief, master, worker, ps, evaluator; "
            "did you mean "
            "'worker'?");
  EXPECT_EQ(clusterRefusal(R"({"worker": "a:1"})"),
            R"(TF_CONFIG has a "worker" that is no list; write "worker": ["HOST:PORT", ...])");
  EXPECT_MENTIONS(clusterRefusal(R"({"worker": {"0": "a:1"}})"), R"(has a "worker" that is no list)");
  EXPECT_MENTIONS(clusterRefusal(R"({"worker": ["a:1", 2]})"), R"(has a member of "worker" that is no text)");
}

TEST(TfConfig, NeedsAddressesOfItsOwnForAll) {
  EXPECT_EQ(clusterRefusal(R"({"worker": ["a"]})"),
            R"(TF_CONFIG's "worker" has 'a' without a port; write HOST:PORT, such as node1:2222)");
  EXPECT_BEGINS(clusterRefusal(R"({"worker": ["a:1"], "ps": ["a:65536"]})"),
                R"(TF_CONFIG's "ps" has 'a:65536')");
  EXPECT_MENTIONS(clusterRefusal(R"({"worker": [":1"]})"), "where no host's name comes before the port");
  EXPECT_MENTIONS(clusterRefusal(R"({"worker": [""]})"), "without a port");
  EXPECT_EQ(clusterRefusal(R"({"worker": ["a:1"], "ps": ["b:1", "a:1"]})"),
            "TF_CONFIG has a:1 twice, for server 1 and worker 0; give each process an address of its own");
}

TEST(TfConfig, HasOneChiefAtMost) {
  EXPECT_EQ(clusterRefusal(R"({"chief": ["a:1", "b:1"], "worker": ["c:1"]})"),
            "TF_CONFIG has 2 chiefs; leave one, and make the others workers");
  EXPECT_EQ(clusterRefusal(R"({"chief": ["a:1"], "master": ["b:1"], "worker": ["c:1"]})"),
            "TF_CONFIG has a chief and a master, which are two names for one; leave one of them out");
}

TEST(TfConfig, NeedsATask) {
  EXPECT_EQ(refusal(R"({"cluster": {"worker": ["a:1"]}})"),
            R"(TF_CONFIG has no "task"; add "task": {"type": "worker", "index": 0})");
  EXPECT_MENTIONS(taskRefusal("3"), R"(has a "task" that is no object)");
  EXPECT_MENTIONS(taskRefusal(R"({"index": 0})"), R"(has no "type" in its "task")");
  EXPECT_MENTIONS(taskRefusal(R"({"type": 1, "index": 0})"), R"(has no "type" in its "task")");
  EXPECT_EQ(taskRefusal(R"({"type": "server", "index": 0})"),
            "TF_CONFIG has a task of type 'server', which is none of chief, master, worker, ps, evaluator");
  EXPECT_MENTIONS(taskRefusal(R"({"type": "worker"})"), R"(has no "index" in its "task")");
}

TEST(TfConfig, NeedsAnIndexThatExists) {
  for (const char* index : {"\"0\"", "-1", "0.0", "1e0", "null", "true", "[0]", "99999999999"}) {
    EXPECT_MENTIONS(taskRefusal(std::string(R"({"type": "worker", "index": )") + index + "}"),
                    "write a whole number from 0 on, without quotes")
        << index;
  }
  EXPECT_EQ(taskRefusal(taskOf("worker", 2)),
            "TF_CONFIG says that this is worker 2, and its cluster has 0 to 1 of them; correct the index or "
            "the list");
  EXPECT_MENTIONS(taskRefusal(taskOf("chief", 1)), "says that this is chief 1");
  EXPECT_EQ(refusal(configOf(R"({"worker": ["a:1"]})", taskOf("ps", 0))),
            R"(TF_CONFIG says that this is ps 0, and its cluster has no "ps"; add it, or correct the task)");
  EXPECT_MENTIONS(taskRefusal(taskOf("evaluator", 1)), R"(its cluster has no "evaluator")");
}

}  // namespace
}  // namespace cohort
