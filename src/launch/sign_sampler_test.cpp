#include "launch/sign_sampler.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "comm/thread_transport.h"

namespace cohort {
namespace {

void pass(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

TEST(SignSampler, TellsForHowLongAWorkerIsInOnePlace) {
  Activity activity;
  activity.enter(Activity::Phase::Steps);
  activity.nameLayers({"conv1"});
  activity.lane(0).set(LanePlace::Doing::Forward, 0);
  SignSampler sampler(nullptr, activity);
  sampler.look(0);
  pass(0.2);
  const WorkerSign stuck = sampler.look(0);
  EXPECT_EQ(stuck.doing, "in forward conv1");
  EXPECT_GE(stuck.doingSeconds, 0.2);
  EXPECT_GE(stuck.stillSeconds, 0.2);
  activity.beat();  // the same layer, of another grain
  const WorkerSign moved = sampler.look(0);
  EXPECT_LT(moved.doingSeconds, 0.2);
  EXPECT_LT(moved.stillSeconds, 0.2);
}

TEST(SignSampler, TakesComputingForMoving) {
  const Activity activity;
  SignSampler sampler(nullptr, activity);
  const std::uint64_t before = sampler.look(0).beats;
  std::atomic<bool> stop = false;
  std::jthread busy([&] {
    while (!stop) {
    }
  });
  std::uint64_t now = before;
  for (int i = 0; i < 100 && now == before; ++i) {
    pass(0.05);
    now = sampler.look(0).beats;
  }
  stop = true;
  EXPECT_GT(now, before);
}

TEST(SignSampler, SaysWhichServerACentersWorkerWaitsFor) {
  Activity activity;
  SignSampler sampler(nullptr, activity);
  activity.waitForServer(2);
  EXPECT_EQ(sampler.look(0).waitsFor, "");  // in the midst of its work
  activity.wait(true);
  const WorkerSign sign = sampler.look(0);
  EXPECT_EQ(sign.waitsFor, "server 2");
  EXPECT_FALSE(sign.waitsForAnother);
}

// The second worker of a group whose first one is worker 4 of the run.
TEST(SignSampler, CountsWorkersOfAGroupAsTheWholeRunDoes) {
  ThreadHub hub(2);
  Communicator first(hub.transport(0), 60);
  Communicator second(hub.transport(1), 60);
  Activity activity;
  SignSampler sampler(&second, activity, 4);
  std::byte sent{};
  std::byte received{};
  std::jthread waits([&] {
    second.transferNow({Message::Direction::Receive, 0, 1, std::span(&received, 1)}, "its order");
  });
  WorkerSign sign;
  for (int i = 0; i < 100 && sign.waitsFor.empty(); ++i) {
    pass(0.02);
    sign = sampler.look(0);
  }
  EXPECT_EQ(sign.waitsFor, "worker 4: its order");
  EXPECT_TRUE(sign.waitsForAnother);
  first.transferNow({Message::Direction::Send, 1, 1, std::span(&sent, 1)}, "the order");
  waits.join();
  // Its first worker waits for servers too.
  activity.wait(true);
  activity.waitForServer(1);
  EXPECT_EQ(sampler.look(0).waitsFor, "server 1");
}

}  // namespace
}  // namespace cohort
