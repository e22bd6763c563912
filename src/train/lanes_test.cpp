#include "train/lanes.h"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

class LanesOf : public testing::TestWithParam<int> {};
// More lanes than any test machine has cores, too.
INSTANTIATE_TEST_SUITE_P(Counts, LanesOf, testing::Values(1, 2, 3, 4, 32));

TEST_P(LanesOf, EachRunsTheWorkOncePerRound) {
  const int rounds = 8000 / GetParam();
  Lanes lanes(GetParam());
  ASSERT_EQ(lanes.count(), GetParam());
  std::vector<int> calls(static_cast<std::size_t>(lanes.count()));
  for (int round = 1; round <= rounds; ++round) {
    lanes.run([&](int lane) { ++calls[static_cast<std::size_t>(lane)]; });
    // No lane is still at work: a plain read is no race.
    ASSERT_EQ(calls, std::vector<int>(calls.size(), round));
  }
}

TEST_P(LanesOf, MeetingsAreBarriers) {
  constexpr int kMeetings = 100;
  Lanes lanes(GetParam());
  std::atomic<int> entered = 0;
  std::atomic<int> early = 0;
  lanes.run([&](int) {
    for (int meeting = 1; meeting <= kMeetings; ++meeting) {
      ++entered;
      lanes.meet();
      if (entered < meeting * lanes.count()) ++early;
      lanes.meet();  // so that nobody enters the next one before all have looked
    }
  });
  EXPECT_EQ(early, 0);
  EXPECT_EQ(entered, kMeetings * lanes.count());
}

TEST_P(LanesOf, AnExceptionIsThrownAgainWhenAllHaveEndedAndTheLanesGoOn) {
  Lanes lanes(GetParam());
  for (int thrower = 0; thrower < lanes.count(); ++thrower) {
    std::atomic<int> ended = 0;
    EXPECT_THROW(lanes.run([&](int lane) {
      if (lane == thrower) throw std::runtime_error("on purpose");
      ++ended;
    }),
                 std::runtime_error);
    EXPECT_EQ(ended, lanes.count() - 1);
  }
  std::atomic<int> calls = 0;
  EXPECT_NO_THROW(lanes.run([&](int) { ++calls; }));
  EXPECT_EQ(calls, lanes.count());
}

TEST(Lanes, LaneZeroIsTheCaller) {
  Lanes lanes(2);
  std::vector<std::thread::id> ids(2);
  lanes.run([&](int lane) { ids[static_cast<std::size_t>(lane)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], std::this_thread::get_id());
}

TEST(Lanes, WakeAfterALongSleep) {
  Lanes lanes(3);
  std::atomic<int> calls = 0;
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lanes.run([&](int lane) {
      if (lane == round) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++calls;
    });
  }
  EXPECT_EQ(calls, 9);
}

}  // namespace
}  // namespace cohort
