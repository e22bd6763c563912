#include "planner/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Timeline, WhatIsEarlierComesFirstAndEqualsInTheOrderOfPlanning) {
  Timeline timeline;
  std::vector<int> order;
  timeline.at(2, [&] { order.push_back(3); });
  timeline.at(1, [&] {
    order.push_back(1);
    timeline.at(2, [&] { order.push_back(5); });
  });
  timeline.at(2, [&] { order.push_back(4); });
  timeline.at(1, [&] { order.push_back(2); });
  timeline.run();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(timeline.now(), 2);
}

class CommunicationTest : public testing::Test {
 protected:
  // When each message came.
  void send(int from, int to, std::size_t bytes) {
    communication_.send(from, to, bytes, [this] { came_.push_back(timeline_.now()); });
  }

  WorkerNetwork network_{.hosts = {{.cable = {.latency = 1, .bandwidth = 10}},
                                   {.cable = {.latency = 2, .bandwidth = 5}},
                                   {.cable = {.latency = 1, .bandwidth = 10}}},
                         .hostOf = {0, 0, 1, 2},
                         .sameHost = {.latency = 0.5, .bandwidth = 100}};
  Timeline timeline_;
  Communication communication_{network_, timeline_};
  std::vector<double> came_;
};

TEST_F(CommunicationTest, AMessageTakesTheLargerLatencyAndTheSlowerCable) {
  send(0, 2, 100);
  timeline_.run();
  EXPECT_THAT(came_, testing::ElementsAre(2 + 20));
  EXPECT_EQ(communication_.sentBytes(0), 100U);
}

TEST_F(CommunicationTest, AMessageHasNotComeBeforeItsLastByteHasLeft) {
  send(2, 0, 100);
  timeline_.run();
  EXPECT_THAT(came_, testing::ElementsAre(20 + 2));
}

TEST_F(CommunicationTest, InsideAHostTheCableIsNotUsed) {
  send(0, 1, 100);
  send(1, 3, 100);
  timeline_.run();
  EXPECT_THAT(came_, testing::ElementsAre(1 + 0.5, 10 + 1));
}

TEST_F(CommunicationTest, AThreadDoesOneThingAfterTheOther) {
  const Communication::Busy work = communication_.work(0, 3);
  EXPECT_EQ(work.end, 3);
  send(0, 1, 100);
  EXPECT_EQ(communication_.work(0, 1).begin, 4);
  timeline_.run();
  EXPECT_THAT(came_, testing::ElementsAre(3 + 1 + 0.5));
}

TEST_F(CommunicationTest, WorkersOfAHostTakeTurnsAtItsCableAndReceiversAtTheirs) {
  send(0, 3, 100);
  send(1, 3, 100);
  send(2, 3, 50);  // has left at 10, comes at 2, waits for what came first, and then for the one at 12
  timeline_.run();
  EXPECT_THAT(came_, testing::ElementsAre(11, 16, 26));
}

}  // namespace
}  // namespace cohort
