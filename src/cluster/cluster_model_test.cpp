#include "cluster/cluster_model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

std::string errorOf(const ClusterModel& model, int workers, int servers = 0) {
  return cohort::errorOf<UsageError>([&] { placeOn(model, workers, servers, "c.yaml"); });
}

TEST(ClusterPlaces, WithoutHostsEverybodyHasOne) {
  const ClusterPlaces places = placeOn({}, 2, 1, "c.yaml");
  ASSERT_EQ(places.hosts.size(), 3u);
  EXPECT_EQ(places.hosts[1].name, "worker1");
  EXPECT_EQ(places.hosts[2].name, "server0");
  EXPECT_EQ(places.workers, (std::vector<int>{0, 1}));
  EXPECT_EQ(places.servers, (std::vector<int>{2}));
}

TEST(ClusterPlaces, HostsShareWhatIsLeftEvenly) {
  const ClusterModel model{
      .hosts = {{.name = "n", .count = 3, .speed = 2}, {.name = "big", .cores = 8, .workers = 4}}};
  const ClusterPlaces places = placeOn(model, 9, 2, "c.yaml");
  ASSERT_EQ(places.hosts.size(), 4u);
  EXPECT_EQ(places.hosts[0].name, "n0");
  EXPECT_EQ(places.hosts[0].kind, "n");
  EXPECT_EQ(places.workers, (std::vector<int>{0, 0, 1, 1, 2, 3, 3, 3, 3}));
  EXPECT_EQ(places.servers, (std::vector<int>{0, 1}));
  EXPECT_EQ(places.hosts[0].cores, 2) << "one for each worker";
  EXPECT_EQ(places.hosts[3].cores, 8);
  EXPECT_EQ(places.hosts[2].speed, 2);
}

TEST(ClusterPlaces, ACableIsAHostsOwnOrAsAll) {
  const ClusterModel model{.hosts = {{.name = "a", .latency = 0.5}, {.name = "b", .bandwidth = 7}},
                           .links = {.latency = 0.25, .bandwidth = 9}};
  const ClusterPlaces places = placeOn(model, 2, 0, "c.yaml");
  EXPECT_EQ(places.hosts[0].cable, (LinkModel{.latency = 0.5, .bandwidth = 9}));
  EXPECT_EQ(places.hosts[1].cable, (LinkModel{.latency = 0.25, .bandwidth = 7}));
}

TEST(ClusterPlaces, NumbersMustFit) {
  const ClusterModel model{.hosts = {{.name = "a", .workers = 2, .servers = 0}}};
  EXPECT_EQ(errorOf(model, 3),
            "the hosts of c.yaml have places for 2 workers, and there are 3; change their 'workers', or "
            "leave it out of "
            "some: they share what is left");
  EXPECT_EQ(errorOf(model, 2, 1).substr(0, 62),
            "the hosts of c.yaml have places for 0 servers, and there are 1");
  EXPECT_EQ(errorOf({.hosts = {{.name = "a", .workers = 2}, {.name = "b"}}}, 1).substr(0, 47),
            "the hosts of c.yaml have places for 2 workers, ");
  EXPECT_EQ(errorOf({.hosts = {{.name = "a1"}, {.name = "a", .count = 2}}}, 3),
            "two hosts of c.yaml are called a1; give one another name");
}

TEST(ClusterPlaces, AChoiceIsAWorkerAHostOrAllOfAKind) {
  const ClusterModel model{.hosts = {{.name = "n", .count = 2}, {.name = "m"}}};
  const ClusterPlaces places = placeOn(model, 5, 0, "c.yaml");
  EXPECT_EQ(places.chosen({.worker = 3}, "c.yaml"), (std::vector<int>{3}));
  EXPECT_EQ(places.chosen({.worker = {}, .host = "n1"}, "c.yaml"), (std::vector<int>{2, 3}));
  EXPECT_EQ(places.chosen({.worker = {}, .host = "n"}, "c.yaml"), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(places.chosen({}, "c.yaml").size(), 5u);
}

TEST(ClusterPlaces, StragglersAndFailuresNameSomebody) {
  EXPECT_EQ(errorOf({.stragglers = {{.who = {.worker = 2}}}}, 2),
            "c.yaml names worker 2, and there are workers 0 to 1");
  EXPECT_EQ(errorOf({.failures = {{.who = {.worker = {}, .host = "x"}, .at = 1}}}, 2),
            "c.yaml names the workers of host 'x', and there are none");
  EXPECT_EQ(
      errorOf({.hosts = {{.name = "a"}}, .failures = {{.who = {.worker = {}, .host = "a"}, .at = 1}}}, 2, 1),
      "c.yaml lets host a fail, where a server is; failures are workers': give the server another host "
      "('servers'), "
      "or name workers");
}

}  // namespace
}  // namespace cohort
