// Asynchronous training, with a bound on staleness and without.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "center/test_policy.h"

namespace cohort {
namespace {

constexpr int kGrains = 4;

Work all(Step step) {
  return {step, {0, kGrains}};
}

// Members have one work at a time unless a test says otherwise: its sequences are shorter.
ToldPolicy policyOf(AsyncOptions options, const Progress& from = {}) {
  options.grains = kGrains;
  return ToldPolicy(asyncPolicy(options, from));
}

TEST(AsyncPolicy, GivesStepsInOrderToWhoeverAsksForOne) {
  ToldPolicy policy = policyOf({.target = 4, .ahead = 0});
  EXPECT_EQ(policy.joined(7), "give 7 0:0-4 v0");
  EXPECT_EQ(policy.joined(9), "give 9 1:0-4 v0");
  EXPECT_EQ(policy.finished(9, all(1)), "give 9 2:0-4 v0");
  EXPECT_EQ(policy.progress(), (Progress{.done = 1, .next = 3, .open = {0, 2}}));
  EXPECT_EQ(policy.finished(7, all(0)), "give 7 3:0-4 v0");
  EXPECT_EQ(policy.finished(9, all(2)), "");
  EXPECT_EQ(policy.finished(7, all(3)), "end");
  EXPECT_EQ(policy.progress(), (Progress{.done = 4, .next = 4, .open = {}}));
}

TEST(AsyncPolicy, GivesAsManyStepsAheadAsItIsTold) {
  ToldPolicy policy = policyOf({.target = 100, .ahead = 1});
  EXPECT_EQ(policy.joined(0), "give 0 0:0-4 v0; give 0 1:0-4 v0");
  EXPECT_EQ(policy.joined(1), "give 1 2:0-4 v0; give 1 3:0-4 v0");
  EXPECT_EQ(policy.finished(1, all(2)), "give 1 4:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(0)), "give 0 5:0-4 v0");
  EXPECT_EQ(policyOf({.target = 100, .ahead = 2}).joined(3),
            "give 3 0:0-4 v0; give 3 1:0-4 v0; give 3 2:0-4 v0");
}

TEST(AsyncPolicy, GivesOneStepToEachBeforeAnybodyHasASecond) {
  ToldPolicy policy = policyOf({.target = 6, .staleness = 0, .ahead = 1});
  EXPECT_EQ(policy.joined(0), "give 0 0:0-4 v0");
  EXPECT_EQ(policy.joined(1), "give 1 1:0-4 v0");
  ToldPolicy returned = policyOf({.target = 3, .ahead = 1});
  EXPECT_EQ(returned.joined(0), "give 0 0:0-4 v0; give 0 1:0-4 v0");
  EXPECT_EQ(returned.joined(1), "give 1 2:0-4 v0");
  EXPECT_EQ(returned.joined(2), "");
  EXPECT_EQ(returned.joined(3), "");
  EXPECT_EQ(returned.left(0), "give 2 0:0-4 v0; give 3 1:0-4 v0");
}

TEST(AsyncPolicy, GivesWhatALeaverHeldToOthersFirst) {
  ToldPolicy policy = policyOf({.target = 6, .ahead = 1});
  policy.joined(0);
  policy.joined(1);  // 0 has steps 0 and 1, 1 has 2 and 3
  EXPECT_EQ(policy.left(1), "");
  EXPECT_EQ(policy.progress(), (Progress{.done = 0, .next = 4, .open = {0, 1, 2, 3}}));
  EXPECT_EQ(policy.finished(1, all(2)), "drop 1 2:0-4");
  EXPECT_EQ(policy.finished(0, all(0)), "give 0 2:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(1)), "give 0 3:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(2)), "give 0 4:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(3)), "give 0 5:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(4)), "");
  EXPECT_EQ(policy.finished(0, all(5)), "end");
}

TEST(AsyncPolicy, GivesALateComerWhatIsLeft) {
  ToldPolicy policy = policyOf({.target = 3, .ahead = 0});
  policy.joined(0);
  policy.finished(0, all(0));
  EXPECT_EQ(policy.joined(1), "give 1 2:0-4 v0");
  EXPECT_EQ(policy.joined(2), "");
  EXPECT_EQ(policy.finished(0, all(1)), "");
  EXPECT_EQ(policy.left(1), "give 0 2:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(2)), "end");
}

TEST(AsyncPolicy, EndsOnce) {
  ToldPolicy policy = policyOf({.target = 1});
  policy.joined(0);
  EXPECT_EQ(policy.finished(0, all(0)), "end");
  EXPECT_EQ(policy.finished(0, all(0)), "drop 0 0:0-4");
  EXPECT_EQ(policy.halted(), "");
  EXPECT_EQ(policy.joined(1), "");
  EXPECT_EQ(policy.left(0), "");
}

TEST(AsyncPolicy, EndsAtOnceWhereNothingIsToBeDone) {
  EXPECT_EQ(policyOf({.target = 0}).joined(0), "end");
  EXPECT_EQ(policyOf({.target = 5}, {.done = 5, .next = 5, .open = {}}).joined(0), "end");
  EXPECT_EQ(policyOf({.target = 5}, {.done = 9, .next = 9, .open = {}}).joined(0), "end");
}

TEST(AsyncPolicy, FinishesWhatIsBegunWhenItIsHalted) {
  ToldPolicy policy = policyOf({.target = 100, .ahead = 1});
  policy.joined(0);
  EXPECT_EQ(policy.halted(), "");
  EXPECT_EQ(policy.joined(1), "");
  EXPECT_EQ(policy.finished(0, all(0)), "");
  EXPECT_EQ(policy.left(0), "give 1 1:0-4 v0");
  EXPECT_EQ(policy.finished(1, all(1)), "end");
  EXPECT_EQ(policy.progress(), (Progress{.done = 2, .next = 2, .open = {}}));
}

TEST(AsyncPolicy, IsHaltedWithoutMembersToo) {
  EXPECT_EQ(policyOf({.target = 100}).halted(), "end");
  ToldPolicy begun = policyOf({.target = 100, .ahead = 0});
  begun.joined(0);
  begun.left(0);
  EXPECT_EQ(begun.halted(), "");  // step 0 is begun, and waits for somebody
  EXPECT_EQ(begun.joined(1), "give 1 0:0-4 v0");
  EXPECT_EQ(begun.finished(1, all(0)), "end");
}

TEST(AsyncPolicy, DropsWhatIsNotTheMembers) {
  ToldPolicy policy = policyOf({.target = 100, .ahead = 0});
  policy.joined(0);
  policy.joined(1);
  EXPECT_EQ(policy.finished(0, all(1)), "drop 0 1:0-4");  // another's
  EXPECT_EQ(policy.finished(0, all(7)), "drop 0 7:0-4");  // nobody's
  EXPECT_EQ(policy.finished(5, all(0)), "drop 5 0:0-4");  // of a stranger
  EXPECT_EQ(policy.finished(0, all(0)), "give 0 2:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(0)), "drop 0 0:0-4");  // twice
  EXPECT_EQ(policy.left(5), "");
  EXPECT_EQ(policy.progress(), (Progress{.done = 1, .next = 3, .open = {1, 2}}));
}

TEST(AsyncPolicy, GoesOnAfterARestartWithOpenStepsFirst) {
  const Progress from{.done = 4, .next = 7, .open = {2, 4, 5}};
  ToldPolicy policy = policyOf({.target = 8, .ahead = 0}, from);
  EXPECT_EQ(policy.progress(), from);
  EXPECT_EQ(policy.joined(0), "give 0 2:0-4 v0");
  EXPECT_EQ(policy.joined(1), "give 1 4:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(2)), "give 0 5:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(5)), "give 0 7:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(7)), "");
  EXPECT_EQ(policy.progress(), (Progress{.done = 7, .next = 8, .open = {4}}));
  EXPECT_EQ(policy.finished(1, all(4)), "end");
}

TEST(StaleSynchronousPolicy, LetsNobodyGetTooFarAhead) {
  ToldPolicy policy = policyOf({.target = 100, .staleness = 1, .ahead = 0});
  policy.joined(0);
  policy.joined(1);
  EXPECT_EQ(policy.finished(0, all(0)), "give 0 2:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(2)), "");  // it has finished 2, the other none
  EXPECT_EQ(policy.finished(1, all(1)), "give 0 3:0-4 v0; give 1 4:0-4 v0");
}

TEST(StaleSynchronousPolicy, CountsWhatIsGivenAheadToo) {
  ToldPolicy policy = policyOf({.target = 100, .staleness = 1, .ahead = 3});
  EXPECT_EQ(policy.joined(0), "give 0 0:0-4 v0; give 0 1:0-4 v0");
  EXPECT_EQ(policy.joined(1), "give 1 2:0-4 v0; give 1 3:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(0)), "");
  EXPECT_EQ(policy.finished(1, all(2)), "give 0 4:0-4 v0; give 1 5:0-4 v0");
}

TEST(StaleSynchronousPolicy, StartsAJoinerAtTheSlowest) {
  ToldPolicy policy = policyOf({.target = 100, .staleness = 0, .ahead = 0});
  policy.joined(0);
  EXPECT_EQ(policy.finished(0, all(0)), "give 0 1:0-4 v0");
  EXPECT_EQ(policy.finished(0, all(1)), "give 0 2:0-4 v0");
  EXPECT_EQ(policy.joined(1), "give 1 3:0-4 v0");
  // Both count as having finished two: neither waits for the joiner to catch up from nothing.
  EXPECT_EQ(policy.finished(1, all(3)), "");
  EXPECT_EQ(policy.finished(0, all(2)), "give 0 4:0-4 v0; give 1 5:0-4 v0");
}

TEST(StaleSynchronousPolicy, ALeaverFreesThoseWhoWaitedForIt) {
  ToldPolicy policy = policyOf({.target = 100, .staleness = 0, .ahead = 0});
  policy.joined(0);
  policy.joined(1);
  EXPECT_EQ(policy.finished(0, all(0)), "");
  EXPECT_EQ(policy.left(1), "give 0 1:0-4 v0");
}

// Members that come, go and finish in any order.
struct RandomRun {
  RandomRun(unsigned seed, Step bound, int ahead)
      : random(seed),
        staleness(bound),
        policy(asyncPolicy({.target = kTarget, .grains = kGrains, .staleness = bound, .ahead = ahead})) {}

  static constexpr Step kTarget = 60;

  Step slowest() const {
    Step least = clocks.empty() ? 0 : clocks.begin()->second;
    for (const auto& [member, clock] : clocks) least = std::min(least, clock);
    return least;
  }
  void take(const std::vector<Decision>& decisions) {
    for (const Decision& decision : decisions) {
      if (const auto* assign = std::get_if<Assign>(&decision)) {
        ASSERT_TRUE(clocks.contains(assign->member));
        std::set<Step>& held = works[assign->member];
        EXPECT_LE(clocks[assign->member] + std::ssize(held) - slowest(), staleness);
        for (const auto& [member, steps] : works) EXPECT_FALSE(steps.contains(assign->work.step));
        EXPECT_FALSE(done.contains(assign->work.step));
        held.insert(assign->work.step);
      }
      ends += std::holds_alternative<End>(decision) ? 1 : 0;
      EXPECT_FALSE(std::holds_alternative<Drop>(decision));
    }
    const bool isSomebodyBusy = std::ranges::any_of(works, [](const auto& w) { return !w.second.empty(); });
    EXPECT_TRUE(isSomebodyBusy || clocks.empty() || std::ssize(done) == kTarget);
  }
  void join() {
    clocks.emplace(next, slowest());
    works[next];
    take(policy->handle(Joined{next++}));
  }
  void oneEvent() {
    const auto choice = random() % 20;
    if (clocks.empty() || (choice == 0 && clocks.size() < 6)) return join();
    const MemberId member =
        std::next(clocks.begin(), static_cast<std::ptrdiff_t>(random() % clocks.size()))->first;
    if (choice == 1) {
      clocks.erase(member);
      works.erase(member);
      return take(policy->handle(Left{member}));
    }
    std::set<Step>& held = works[member];
    if (held.empty()) return;
    const Step step = *held.begin();
    held.erase(held.begin());
    ++clocks[member];
    EXPECT_TRUE(done.insert(step).second);
    take(policy->handle(Finished{member, all(step)}));
  }

  std::mt19937 random;
  Step staleness;
  std::unique_ptr<CenterPolicy> policy;
  std::map<MemberId, Step> clocks;
  std::map<MemberId, std::set<Step>> works;
  std::set<Step> done;
  MemberId next = 0;
  int ends = 0;
};

TEST(StaleSynchronousPolicy, KeepsItsBoundAndGivesEveryStepOnceWhateverHappens) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomRun run(seed, seed % 4, static_cast<int>(seed % 3));
    for (int i = 0; i < 5000 && run.ends == 0; ++i) run.oneEvent();
    EXPECT_EQ(std::ssize(run.done), RandomRun::kTarget) << seed;
    EXPECT_EQ(run.ends, 1) << seed;
    EXPECT_EQ(run.policy->progress().done, RandomRun::kTarget);
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace cohort
