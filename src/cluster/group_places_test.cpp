#include "cluster/group_places.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/task_map.h"

namespace cohort {
namespace {

using testing::ElementsAre;

// As if every worker had a socket and an address.
std::vector<WorkerDoor> doorsOn(const std::vector<std::string>& hosts) {
  std::vector<WorkerDoor> doors;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    doors.push_back({hosts[i], "unix:" + std::to_string(i), hosts[i] + ":" + std::to_string(i)});
  return doors;
}

TEST(GroupPlaces, GroupsOfOneHostMeetBySockets) {
  EXPECT_THAT(meetingPlaces(doorsOn({"a", "a", "a", "b"}), 2), ElementsAre("unix:0", "unix:1", "a:2", "b:3"));
  EXPECT_THAT(meetingPlaces(doorsOn({"a", "b", "b"}), 3), ElementsAre("a:0", "b:1", "b:2"));
  EXPECT_THAT(meetingPlaces(doorsOn({"a", "b"}), 1), ElementsAre("unix:0", "unix:1"));
}

TEST(GroupPlaces, AGroupIsOfConsecutiveWorkers) {
  const std::vector<std::string> places = {"0", "1", "2", "3", "4", "5"};
  EXPECT_THAT(groupOf(places, 0, 3), ElementsAre("0", "1", "2"));
  EXPECT_THAT(groupOf(places, 2, 3), ElementsAre("0", "1", "2"));
  EXPECT_THAT(groupOf(places, 3, 3), ElementsAre("3", "4", "5"));
}

TEST(GroupPlaces, GroupsAreShown) {
  ClusterMap cluster = withServers(tasksOnHosts({"a", "a", "b"}, 1), {0});
  nameGroups(cluster, 1);
  EXPECT_EQ(toText(cluster),
            "  member    rank  group  host  local\n"
            "  server 0  0            a     0\n"
            "* worker 0  1     0      a     1\n"
            "  worker 1  2     1      b     0");
}

TEST(GroupPlaces, NoTwoOfAHostShareAPort) {
  const TaskMap tasks = tasksOnHosts({"a", "a", "a", "b"}, 0);
  const ClusterMap cluster = withServers(tasks, {1}, 7000);
  std::multiset<std::string> taken;
  for (const Member& member : cluster.members) {
    if (member.port) taken.insert(member.host + std::to_string(*member.port));
    for (int k = 0; k < 3 && member.role == Role::Worker; ++k)
      taken.insert(member.host + std::to_string(groupPort(cluster, member, k, 7000)));
  }
  EXPECT_EQ(taken.size(), 10u);
  EXPECT_EQ(std::set(taken.begin(), taken.end()).size(), taken.size());
  EXPECT_THROW(groupPort(cluster, cluster.members[2], 1, 65533), UsageError);
}

}  // namespace
}  // namespace cohort
