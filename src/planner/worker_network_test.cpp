#include "planner/worker_network.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(WorkerNetwork, EvenOnesConnectAllAlike) {
  const WorkerNetwork network = evenNetwork(3, {.latency = 0.5, .bandwidth = 8});
  EXPECT_EQ(network.workers(), 3);
  EXPECT_EQ(network.link(0, 2), (LinkModel{.latency = 0.5, .bandwidth = 8}));
  EXPECT_EQ(network.host(2).speed, 1);
}

TEST(WorkerNetwork, OfAClusterHasItsHostsCablesAndSpeeds) {
  const ClusterModel model{.hosts = {{.name = "fast", .speed = 2, .workers = 2},
                                     {.name = "far", .workers = 1, .latency = 3, .bandwidth = 5}},
                           .links = {.latency = 1, .bandwidth = 10},
                           .sameHost = {.latency = 0.25, .bandwidth = 100}};
  const WorkerNetwork network = networkOf(model, 3, "c.yaml");
  EXPECT_EQ(network.hostOf, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(network.host(1).speed, 2);
  EXPECT_EQ(network.link(0, 1), (LinkModel{.latency = 0.25, .bandwidth = 100}));
  EXPECT_EQ(network.link(2, 0), (LinkModel{.latency = 3, .bandwidth = 5}));
  EXPECT_EQ(network.slowestLink(std::vector<int>{0, 1, 2}), (LinkModel{.latency = 3, .bandwidth = 5}));
  EXPECT_EQ(network.slowestLink(std::vector<int>{0, 1}), (LinkModel{.latency = 0.25, .bandwidth = 100}));
}

TEST(WorkerNetwork, AnUnlimitedBandwidthIsNeverTheSlower) {
  WorkerNetwork network = evenNetwork(2, {.latency = 0, .bandwidth = 0});
  network.hosts[1].cable.bandwidth = 7;
  EXPECT_EQ(network.link(0, 1).bandwidth, 7);
  EXPECT_EQ(network.slowestLink(std::vector<int>{0, 1}).bandwidth, 7);
  EXPECT_EQ(transferSeconds(100, 0), 0);
  EXPECT_EQ(transferSeconds(100, 50), 2);
}

}  // namespace
}  // namespace cohort
