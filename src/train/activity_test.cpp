#include "train/activity.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

std::string textOf(const Activity& activity) {
  return activity.textOf(activity.now());
}

TEST(Activity, SaysWhereTheFirstLaneIsThatDoesAnything) {
  Activity activity;
  EXPECT_EQ(textOf(activity), "preparing");
  activity.nameLayers({"conv1", "conv2"});
  activity.enter(Activity::Phase::Steps);
  EXPECT_EQ(textOf(activity), "computing");
  activity.lane(1).set(LanePlace::Doing::Forward, 1);
  EXPECT_EQ(textOf(activity), "in forward conv2");
  activity.lane(0).set(LanePlace::Doing::Reading);
  EXPECT_EQ(textOf(activity), "reading samples");
  activity.lane(0).set(LanePlace::Doing::Nothing);
  activity.lane(1).set(LanePlace::Doing::Backward, 0);
  EXPECT_EQ(textOf(activity), "in backward conv1");
  activity.lane(1).set(LanePlace::Doing::Updating, 0);
  EXPECT_EQ(textOf(activity), "updating conv1");
}

TEST(Activity, DoesWithoutTheNamesOfLayers) {
  Activity activity;
  activity.enter(Activity::Phase::Steps);
  activity.lane(0).set(LanePlace::Doing::Forward);
  EXPECT_EQ(textOf(activity), "in forward");
  activity.lane(0).set(LanePlace::Doing::Backward, 7);
  EXPECT_EQ(textOf(activity), "in backward");
}

TEST(Activity, SaysWhichServerIsWaitedFor) {
  Activity activity;
  activity.enter(Activity::Phase::Steps);
  activity.waitForServer(1);
  EXPECT_EQ(textOf(activity), "waiting for server 1");
  activity.waitForServer(-1);
  EXPECT_EQ(textOf(activity), "computing");
}

TEST(Activity, BeatsWithWhatIsDone) {
  Activity activity;
  const std::uint64_t before = activity.now().beats;
  activity.finishStep(3);
  EXPECT_GT(activity.now().beats, before);
  EXPECT_EQ(activity.now().step, 3);
}

}  // namespace
}  // namespace cohort
