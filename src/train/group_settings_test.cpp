#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "train/config_file.h"
#include "train/run_config.h"

namespace cohort {
namespace {

RunConfig resolve(GivenSettings given, const std::optional<std::string>& stored = std::nullopt) {
  given.insert({"sync", {"group"}});
  given.insert({"grains", {"4"}});
  return resolveConfig(builtinNetworks(), stored, given);
}

TEST(GroupSettings, AGroupIsOneMemberOfTheCenter) {
  const RunConfig config = resolve({{"workers", {"4"}}, {"groups", {"2"}}});
  EXPECT_EQ(groupSize(config), 2);
  EXPECT_TRUE(hasCenter(config));
  EXPECT_EQ(centerRule(config), "async");
  EXPECT_TRUE(stepsAlone(config));
  EXPECT_FALSE(exchanges(config));
  const RunConfig elastic = resolve({{"workers", {"4"}}, {"groups", {"4"}}, {"between", {"easgd"}}});
  EXPECT_EQ(groupSize(elastic), 1);
  EXPECT_EQ(centerRule(elastic), "easgd");
  EXPECT_TRUE(exchanges(elastic));
}

TEST(GroupSettings, ABatchIsOneGroups) {
  EXPECT_EQ(resolve({{"workers", {"6"}}, {"groups", {"2"}}, {"batch-per-worker", {"20"}}, {"grains", {"6"}}})
                .batchSize,
            60);
}

TEST(GroupSettings, MayChangeWhenARunGoesOnButNotTheRuleBetweenThem) {
  const std::string stored = toYaml(resolve({{"workers", {"4"}}, {"groups", {"2"}}}));
  EXPECT_EQ(groupSize(resolve({{"workers", {"3"}}, {"groups", {"1"}}}, stored)), 3);
  EXPECT_EQ(errorOf<UsageError>([&] {
              resolve({{"between", {"easgd"}}}, stored);
            }),
            "this job directory was started with --between async, not easgd; give the old value, or another "
            "--job-dir");
}

TEST(GroupSettings, VirtualWorkersAreDividedToo) {
  EXPECT_EQ(groupSize(resolve({{"virtual", {"6"}}, {"groups", {"3"}}})), 2);
  EXPECT_EQ(errorOf<UsageError>([] {
              resolve({{"virtual", {"4"}}, {"groups", {"3"}}});
            }),
            "4 workers do not divide into 3 groups of as many; --groups 1, 2, 4 would do, or --virtual 6");
  EXPECT_EQ(errorOf<UsageError>([] {
              resolve({{"virtual", {"1"}}, {"groups", {"2"}}});
            }),
            "2 groups need a worker each, and there is 1; --groups 1 would do, or --virtual 2");
}

TEST(GroupSettings, WhatMakesNoGroupsIsRefusedWithWhatWould) {
  const auto refused = [](const char* workers, const char* groups) {
    return errorOf<UsageError>([&] { resolve({{"workers", {workers}}, {"groups", {groups}}}); });
  };
  EXPECT_EQ(refused("6", "0"),
            "--sync group needs the number of groups: --groups 1, 2, 3, 6 would do for 6 workers");
  EXPECT_EQ(refused("1", "2"),
            "2 groups need a worker each, and there is 1; --groups 1 would do, or --workers 2");
  EXPECT_EQ(refused("4", "3"),
            "4 workers do not divide into 3 groups of as many; --groups 1, 2, 4 would do, or --workers 6");
  EXPECT_EQ(
      refused("5", "1"),
      "the 5 workers of a group need a grain each, and a batch of 100 has 4; give more --groups, or more "
      "--grains");
}

}  // namespace
}  // namespace cohort
