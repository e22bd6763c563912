#include "cluster/task_map.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

using Ranks = std::vector<int>;

const TaskMap kThreeNodes = tasksOnHosts({"n1", "n1", "n2", "n2", "n3"}, 3);
const TaskMap kOneNode = tasksOnHosts({"a", "a", "a"}, 0);

std::string names(const ClusterMap& cluster) {
  std::string text;
  for (const Member& member : cluster.members) text += (text.empty() ? "" : ", ") + nameOf(member);
  return text;
}

Ranks serversOf(const std::string& text, const TaskMap& tasks = kThreeNodes) {
  return parseServerTasks(text, tasks, "--server-tasks");
}

TEST(TaskMap, CountsNodesAndTheirTasksInTheOrderOfRanks) {
  const TaskMap map = tasksOnHosts({"b", "a", "b", "a", "a"}, 4);
  EXPECT_EQ(map.tasks,
            (std::vector<PlacedTask>{{"b", 0, 0}, {"a", 1, 0}, {"b", 0, 1}, {"a", 1, 1}, {"a", 1, 2}}));
  EXPECT_EQ(map.self(), (PlacedTask{"a", 1, 2}));
  EXPECT_EQ(map.hosts(), (std::vector<std::string>{"b", "a"}));
}

TEST(ServerTasks, AreNoneWithoutACenter) {
  const ClusterMap cluster = withoutServers(kThreeNodes);
  EXPECT_EQ(names(cluster), "worker 0, worker 1, worker 2, worker 3, worker 4");
  EXPECT_EQ(cluster.self(),
            (Member{.role = Role::Worker, .index = 3, .host = "n2", .localIndex = 1, .rank = 3}));
}

TEST(ServerTasks, AreThoseOfTheFirstNode) {
  const ClusterMap cluster = withServers(kThreeNodes, defaultServerTasks(kThreeNodes));
  EXPECT_EQ(names(cluster), "server 0, server 1, worker 0, worker 1, worker 2");
  EXPECT_EQ(nameOf(cluster.self()), "worker 1");
  EXPECT_EQ(defaultServerTasks(tasksOnHosts({"b", "a", "b", "a"}, 0)), (Ranks{0, 2}));
}

TEST(ServerTasks, AreTheFirstTaskOfASingleNode) {
  EXPECT_EQ(names(withServers(kOneNode, defaultServerTasks(kOneNode))), "server 0, worker 0, worker 1");
}

TEST(ServerTasks, AreACountOrRanks) {
  EXPECT_EQ(serversOf("3"), (Ranks{0, 1, 2}));
  EXPECT_EQ(serversOf("0,3"), (Ranks{0, 3}));
  EXPECT_EQ(serversOf("0-1"), (Ranks{0, 1}));
  EXPECT_EQ(serversOf("2-2"), (Ranks{2}));
  EXPECT_EQ(names(withServers(kThreeNodes, serversOf("4,1"))),
            "worker 0, server 1, worker 1, worker 2, server 0")
      << "servers are numbered as they were named";
}

TEST(ServerTasks, OfOneNodeNeverShareAPort) {
  const ClusterMap cluster = withServers(kThreeNodes, serversOf("0-3"), 100);
  std::vector<std::string> addresses;
  for (const Member& member : cluster.members)
    addresses.push_back(member.port ? member.host + ":" + std::to_string(*member.port) : "");
  EXPECT_EQ(addresses, (std::vector<std::string>{"n1:100", "n1:101", "n2:100", "n2:101", ""}));
}

TEST(ServerTasks, LeaveSomebodyToWork) {
  const auto refusal = [](const TaskMap& tasks, const Ranks& ranks) {
    return errorOf<UsageError>([&] { withServers(tasks, ranks); });
  };
  const std::string sentence = "none is left to work";
  EXPECT_EQ(refusal(kThreeNodes, serversOf("5")),
            "of 5 tasks none is left to work where 5 serve; start more tasks, or let fewer serve");
  EXPECT_MENTIONS(refusal(kThreeNodes, serversOf("99")), sentence);
  EXPECT_MENTIONS(refusal(kOneNode, {2, 1, 0}), sentence);
  const TaskMap alone = tasksOnHosts({"a"}, 0);
  EXPECT_MENTIONS(refusal(alone, defaultServerTasks(alone)), "of 1 task none is left");
}

TEST(ServerTasks, SayWhatIsWrong) {
  const auto refusal = [](const std::string& text) { return errorOf<UsageError>([&] { serversOf(text); }); };
  EXPECT_EQ(refusal("0,5"), "--server-tasks 0,5: there is no rank 5; the 5 tasks are 0 to 4");
  EXPECT_EQ(refusal("0"), "--server-tasks 0 leaves no server; give at least 1");
  EXPECT_BEGINS(refusal("first"), "--server-tasks takes numbers and ranges");
  EXPECT_BEGINS(refusal(""), "--server-tasks takes numbers and ranges");
  EXPECT_EQ(refusal("1,1"), "--server-tasks has 1 twice; leave one out");
  EXPECT_MENTIONS(errorOf<UsageError>([] {
                    withServers(kThreeNodes, {0, 1}, 65'535);
                  }),
                  "server 1 (rank 1) would listen at port 65536, and ports end at 65535");
}

}  // namespace
}  // namespace cohort
