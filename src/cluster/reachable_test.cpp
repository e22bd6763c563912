#include "cluster/reachable.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

NetworkAddress at(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d, int prefix = 24) {
  return {.interface = "eth0", .address = a << 24 | b << 16 | c << 8 | d, .prefix = prefix};
}

const NetworkAddress kBridge = at(172, 17, 0, 1, 16);

TEST(Reachable, TheAddressInTheNetOfTheOthers) {
  const std::vector<HostAddresses> hosts = {
      {.host = "a", .addresses = {at(192, 168, 5, 1), at(10, 0, 0, 1)}},
      {.host = "b", .addresses = {at(10, 0, 0, 2), at(192, 168, 6, 2)}},
      {.host = "c", .addresses = {at(10, 0, 0, 3)}},
  };
  EXPECT_EQ(reachableAddress(hosts, 0), "10.0.0.1");
  EXPECT_EQ(reachableAddress(hosts, 1), "10.0.0.2");
  EXPECT_EQ(reachableAddress(hosts, 2), "10.0.0.3");
}

TEST(Reachable, AnAddressThatSeveralHaveLeadsNowhere) {
  const std::vector<HostAddresses> hosts = {{.host = "a", .addresses = {kBridge, at(10, 0, 0, 1)}},
                                            {.host = "b", .addresses = {kBridge, at(10, 0, 0, 2)}}};
  EXPECT_EQ(reachableAddress(hosts, 0), "10.0.0.1");
  EXPECT_EQ(reachableAddress(hosts, 1), "10.0.0.2");
}

TEST(Reachable, ARoutedNetIsBetterThanNothing) {
  const std::vector<HostAddresses> hosts = {{.host = "a", .addresses = {kBridge, at(10, 1, 0, 1)}},
                                            {.host = "b", .addresses = {kBridge, at(10, 2, 0, 1)}}};
  EXPECT_EQ(reachableAddress(hosts, 0), "10.1.0.1");
}

TEST(Reachable, TasksOfOneHostAreNoOthers) {
  const HostAddresses a{.host = "a", .addresses = {at(10, 0, 0, 1)}};
  const HostAddresses b{.host = "b", .addresses = {at(10, 0, 0, 2)}};
  EXPECT_EQ(reachableAddress({a, a, b}, 0), "10.0.0.1");
}

TEST(Reachable, HostsThatAreOneMachine) {
  EXPECT_EQ(
      reachableAddress({{.host = "a", .addresses = {kBridge}}, {.host = "b", .addresses = {kBridge}}}, 0),
      "127.0.0.1");
  EXPECT_EQ(reachableAddress({{.host = "a"}, {.host = "b"}}, 0), "127.0.0.1");
}

TEST(Reachable, WithoutAnAddressTheName) {
  EXPECT_EQ(reachableAddress({{.host = "a"}, {.host = "b", .addresses = {at(10, 0, 0, 2)}}}, 0), "a");
}

TEST(Reachable, NetsOfOddSizes) {
  const std::vector<HostAddresses> hosts = {
      {.host = "a", .addresses = {at(10, 0, 0, 1, 32), at(10, 0, 1, 1, 22)}},
      {.host = "b", .addresses = {at(10, 0, 3, 1, 22)}},
  };
  EXPECT_EQ(reachableAddress(hosts, 0), "10.0.1.1");
  EXPECT_EQ(reachableAddress({{.host = "a", .addresses = {at(10, 0, 0, 1, 0)}},
                              {.host = "b", .addresses = {at(11, 0, 0, 1, 0)}}},
                             0),
            "10.0.0.1");
}

}  // namespace
}  // namespace cohort
