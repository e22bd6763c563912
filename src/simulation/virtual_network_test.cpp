#include "simulation/virtual_network.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using Times = std::vector<VirtualTime>;
constexpr VirtualTime kMillisecond = 1000000;

struct Net {
  explicit Net(const ClusterModel& cluster)
      : model(cluster), places(placeOn(model, 3, 0, "c.yaml")), cables(model, places, queue) {}

  // When each has come, in milliseconds; all are sent at once.
  Times arrivals(const std::vector<std::pair<int, int>>& sent, std::uint64_t bytes = 48) {
    Times times(sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      cables.send(sent[i].first, sent[i].second, bytes,
                  [this, &times, i] { times[i] = queue.now() / kMillisecond; });
    }
    while (queue.runNext()) {
    }
    return times;
  }

  ClusterModel model;
  ClusterPlaces places;
  EventQueue queue;
  VirtualNetwork cables;
};

// 48 bytes take 48 ms.
const ClusterModel kStar{.links = {.latency = 0.010, .bandwidth = 1000}};

TEST(VirtualNetwork, WhatComesToOneHostWaitsForItsCable) {
  EXPECT_EQ(Net(kStar).arrivals({{0, 2}, {1, 2}}), (Times{58, 106}));
}

TEST(VirtualNetwork, WhatLeavesOneHostWaitsForItsCable) {
  EXPECT_EQ(Net(kStar).arrivals({{0, 1}, {0, 2}}), (Times{58, 106}));
}

TEST(VirtualNetwork, BothDirectionsAndOtherHostsDoNotDisturbEachOther) {
  EXPECT_EQ(Net(kStar).arrivals({{0, 1}, {1, 0}, {2, 2}}), (Times{58, 58, 0}));
}

TEST(VirtualNetwork, WhoComesFirstIsServedFirst) {
  ClusterModel model = kStar;
  model.hosts = {{.name = "slow", .latency = 0.100}, {.name = "quick"}, {.name = "middle"}};
  EXPECT_EQ(Net(model).arrivals({{0, 2}, {1, 2}}), (Times{148, 58})) << "though the first was sent before";
}

TEST(VirtualNetwork, TheSlowerCableDecides) {
  ClusterModel model = kStar;
  model.hosts = {{.name = "slow", .bandwidth = 500}, {.name = "quick"}, {.name = "endless", .bandwidth = 0}};
  EXPECT_EQ(Net(model).arrivals({{0, 1}}), (Times{106}));
  EXPECT_EQ(Net(model).arrivals({{1, 0}}), (Times{106}));
  EXPECT_EQ(Net(model).arrivals({{2, 1}}), (Times{58}));
}

TEST(VirtualNetwork, CountsWhatIsSent) {
  Net net(kStar);
  net.arrivals({{0, 1}, {1, 1}});
  EXPECT_EQ(net.cables.sentBytes(), 96u);
}

}  // namespace
}  // namespace cohort
