#include "doctor/link.h"

#include <gtest/gtest.h>

#include "doctor/socket.h"

namespace cohort {
namespace {

struct Served {
  std::string error;
  Descriptor listener = listenAt(0, error);
  int port = portOf(listener);
  LinkServer server{std::move(listener), "token of sixteen"};
};

TEST(Link, IsMeasuredBothWays) {
  const Served served;
  const LinkFacts link = measureLink({.addresses = {"127.0.0.1"}, .port = served.port},
                                     {.token = "token of sixteen", .rateSeconds = 0.02});
  EXPECT_EQ(link.error, "");
  EXPECT_EQ(link.address, "127.0.0.1");
  EXPECT_EQ(link.interface, "lo");
  EXPECT_GT(link.roundTrip, 0);
  EXPECT_LT(link.roundTrip, 1);
  EXPECT_GT(link.there, 1e6);
  EXPECT_GT(link.back, 1e6);
}

TEST(Link, TriesAllAddresses) {
  const Served served;
  // Nobody routes the first one.
  const LinkFacts link = measureLink({.addresses = {"240.0.0.1", "127.0.0.1"}, .port = served.port},
                                     {.token = "token of sixteen", .connectSeconds = 1});
  EXPECT_EQ(link.error, "");
  EXPECT_EQ(link.address, "127.0.0.1");
  EXPECT_EQ(link.there, 0) << "nobody asked for it";
}

TEST(Link, SaysWhyThereIsNone) {
  std::string error;
  int port = 0;
  {
    const Descriptor gone = listenAt(0, error);
    port = portOf(gone);
  }
  const LinkFacts link =
      measureLink({.addresses = {"127.0.0.1"}, .port = port}, {.token = "token of sixteen"});
  EXPECT_EQ(link.error, "127.0.0.1: Connection refused");
}

TEST(Link, LeavesStrangersAlone) {
  const Served served;
  const LinkFacts link =
      measureLink({.addresses = {"127.0.0.1"}, .port = served.port}, {.token = "of somebody else"});
  EXPECT_EQ(link.error, "127.0.0.1: it has closed the connection");
}

TEST(Socket, ListensAtAPortOnce) {
  std::string error;
  const Descriptor first = listenAt(0, error);
  ASSERT_TRUE(first) << error;
  const Descriptor second = listenAt(portOf(first), error);
  EXPECT_FALSE(second);
  EXPECT_EQ(error, "Address already in use");
}

TEST(Resolve, SaysWhatNamesMean) {
  const std::vector<Resolved> found =
      resolve({"localhost", "no-such-host.invalid", "192.0.2.7"}, deadlineIn(20));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_FALSE(found[0].addresses.empty());
  EXPECT_TRUE(found[1].addresses.empty());
  EXPECT_NE(found[1].error, "");
  EXPECT_EQ(found[2].addresses, std::vector<std::string>{"192.0.2.7"});
}

}  // namespace
}  // namespace cohort
