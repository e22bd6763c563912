// Synchronous training through the center, with backup workers and without.
#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "center/test_policy.h"

namespace cohort {
namespace {

ToldPolicy policyOf(const SynchronousOptions& options, const Progress& from = {}) {
  return ToldPolicy(synchronousPolicy(options, from));
}

// Two members that have begun step 0: 0 has grains 0 to 2, 1 has 3 to 5.
ToldPolicy pair(Step target = 100) {
  ToldPolicy policy = policyOf({.target = target, .grains = 6, .members = 2});
  EXPECT_EQ(policy.joined(0), "");
  EXPECT_EQ(policy.joined(1), "give 0 0:0-3 v0; give 1 0:3-6 v0");
  return policy;
}

TEST(SynchronousPolicy, SharesEveryStepAmongAllMembers) {
  ToldPolicy policy = pair();
  EXPECT_EQ(policy.finished(1, {0, {3, 6}}), "");
  EXPECT_EQ(policy.finished(0, {0, {0, 3}}), "commit 0:0-3,3-6; give 0 1:0-3 v1; give 1 1:3-6 v1");
  EXPECT_EQ(policy.finished(0, {1, {0, 3}}), "");
  EXPECT_EQ(policy.finished(1, {1, {3, 6}}), "commit 1:0-3,3-6; give 0 2:0-3 v2; give 1 2:3-6 v2");
  EXPECT_EQ(policy.progress(), (Progress{.done = 2, .next = 2, .open = {}}));
}

TEST(SynchronousPolicy, BeginsWhenAllThatTheFirstStepWaitsForAreThere) {
  ToldPolicy policy = policyOf({.target = 9, .grains = 7, .members = 3});
  EXPECT_EQ(policy.joined(4), "");
  EXPECT_EQ(policy.joined(5), "");
  EXPECT_EQ(policy.left(4), "");
  EXPECT_EQ(policy.joined(6), "");
  EXPECT_EQ(policy.joined(7), "give 5 0:0-2 v0; give 6 0:2-4 v0; give 7 0:4-7 v0");
}

TEST(SynchronousPolicy, LetsAJoinerWaitForTheNextStep) {
  ToldPolicy policy = pair();
  EXPECT_EQ(policy.joined(2), "");
  EXPECT_EQ(policy.finished(0, {0, {0, 3}}), "");
  EXPECT_EQ(policy.finished(1, {0, {3, 6}}),
            "commit 0:0-3,3-6; give 0 1:0-2 v1; give 1 1:2-4 v1; give 2 1:4-6 v1");
}

TEST(SynchronousPolicy, GivesALeaversPartToWhoeverIsFree) {
  ToldPolicy busy = pair();
  EXPECT_EQ(busy.left(1), "");
  EXPECT_EQ(busy.finished(0, {0, {0, 3}}), "give 0 0:3-6 v0");
  EXPECT_EQ(busy.finished(0, {0, {3, 6}}), "commit 0:0-3,3-6; give 0 1:0-6 v1");

  ToldPolicy idle = pair();
  EXPECT_EQ(idle.finished(0, {0, {0, 3}}), "");
  EXPECT_EQ(idle.left(1), "give 0 0:3-6 v0");

  ToldPolicy joiner = pair();
  EXPECT_EQ(joiner.left(1), "");
  EXPECT_EQ(joiner.joined(2), "give 2 0:3-6 v0");

  ToldPolicy waiting = pair();
  EXPECT_EQ(waiting.joined(2), "");
  EXPECT_EQ(waiting.left(0), "give 2 0:0-3 v0");
}

TEST(SynchronousPolicy, CountsAPartWhoseMemberHasLeftAfterwards) {
  ToldPolicy policy = pair();
  EXPECT_EQ(policy.finished(1, {0, {3, 6}}), "");
  EXPECT_EQ(policy.left(1), "");
  EXPECT_EQ(policy.finished(0, {0, {0, 3}}), "commit 0:0-3,3-6; give 0 1:0-6 v1");
}

TEST(SynchronousPolicy, KeepsAStepWhenEverybodyLeaves) {
  ToldPolicy policy = pair();
  EXPECT_EQ(policy.left(0), "");
  EXPECT_EQ(policy.left(1), "");
  EXPECT_EQ(policy.joined(2), "give 2 0:0-3 v0");
  EXPECT_EQ(policy.finished(2, {0, {0, 3}}), "give 2 0:3-6 v0");
  EXPECT_EQ(policy.finished(2, {0, {3, 6}}), "commit 0:0-3,3-6; give 2 1:0-6 v1");
}

TEST(SynchronousPolicy, LeavesMembersIdleWhereGrainsAreFewer) {
  ToldPolicy policy = policyOf({.target = 9, .grains = 2, .members = 3});
  policy.joined(0);
  policy.joined(1);
  EXPECT_EQ(policy.joined(2), "give 0 0:0-1 v0; give 1 0:1-2 v0");
  EXPECT_EQ(policy.left(1), "give 2 0:1-2 v0");
  EXPECT_EQ(policy.finished(2, {0, {1, 2}}), "");
  EXPECT_EQ(policy.finished(0, {0, {0, 1}}), "commit 0:0-1,1-2; give 0 1:0-1 v1; give 2 1:1-2 v1");
}

TEST(SynchronousPolicy, EndsOnceAfterItsTarget) {
  ToldPolicy policy = pair(1);
  policy.finished(0, {0, {0, 3}});
  EXPECT_EQ(policy.finished(1, {0, {3, 6}}), "commit 0:0-3,3-6; end");
  EXPECT_EQ(policy.joined(2), "");
  EXPECT_EQ(policy.halted(), "");
  EXPECT_EQ(policy.left(0), "");
  EXPECT_EQ(policyOf({.target = 0}).joined(0), "end");
}

TEST(SynchronousPolicy, GoesOnAfterARestart) {
  ToldPolicy policy = policyOf({.target = 9, .grains = 6}, {.done = 7, .next = 7, .open = {}});
  EXPECT_EQ(policy.joined(0), "give 0 7:0-6 v7");
  EXPECT_EQ(policy.finished(0, {7, {0, 6}}), "commit 7:0-6; give 0 8:0-6 v8");
  EXPECT_EQ(policy.finished(0, {8, {0, 6}}), "commit 8:0-6; end");
  EXPECT_EQ(policyOf({.target = 7}, {.done = 7, .next = 7, .open = {}}).joined(0), "end");
}

TEST(SynchronousPolicy, FinishesTheStepInWhichItIsHalted) {
  ToldPolicy policy = pair();
  EXPECT_EQ(policy.halted(), "");
  EXPECT_EQ(policy.finished(0, {0, {0, 3}}), "");
  EXPECT_EQ(policy.left(1), "give 0 0:3-6 v0");
  EXPECT_EQ(policy.finished(0, {0, {3, 6}}), "commit 0:0-3,3-6; end");
  EXPECT_EQ(policyOf({.target = 9, .members = 2}).halted(), "end");
}

TEST(SynchronousPolicy, DropsWhatIsNotTheMembers) {
  ToldPolicy policy = pair();
  EXPECT_EQ(policy.finished(0, {0, {3, 6}}), "drop 0 0:3-6");  // another's
  EXPECT_EQ(policy.finished(0, {1, {0, 3}}), "drop 0 1:0-3");  // not yet
  EXPECT_EQ(policy.finished(8, {0, {0, 3}}), "drop 8 0:0-3");  // of a stranger
  EXPECT_EQ(policy.finished(0, {0, {0, 2}}), "drop 0 0:0-2");  // not all of it
  EXPECT_EQ(policy.finished(0, {0, {0, 3}}), "");
  EXPECT_EQ(policy.finished(0, {0, {0, 3}}), "drop 0 0:0-3");  // twice
  EXPECT_EQ(policy.left(8), "");
  EXPECT_EQ(policy.finished(1, {0, {3, 6}}), "commit 0:0-3,3-6; give 0 1:0-3 v1; give 1 1:3-6 v1");
}

// ---- backup workers

// Three members in step 0, of whom two are waited for.
ToldPolicy three(Step target = 100) {
  ToldPolicy policy = policyOf({.target = target, .grains = 6, .members = 3, .backups = 1});
  EXPECT_EQ(policy.joined(0), "");
  EXPECT_EQ(policy.joined(1), "");
  EXPECT_EQ(policy.joined(2), "give 0 0:0-2 v0; give 1 0:2-4 v0; give 2 0:4-6 v0");
  return policy;
}

TEST(BackupPolicy, EndsAStepWithoutTheSlowest) {
  ToldPolicy policy = three();
  EXPECT_EQ(policy.finished(2, {0, {4, 6}}), "");
  EXPECT_EQ(policy.finished(0, {0, {0, 2}}), "commit 0:0-2,4-6; give 0 1:0-2 v1; give 2 1:4-6 v1");
  // The slow one gets its part of the present step after it, even where that is over by then without it.
  EXPECT_EQ(policy.finished(1, {0, {2, 4}}), "drop 1 0:2-4; give 1 1:2-4 v1");
  EXPECT_EQ(policy.finished(0, {1, {0, 2}}), "");
  EXPECT_EQ(policy.finished(2, {1, {4, 6}}), "commit 1:0-2,4-6; give 0 2:0-2 v2; give 2 2:4-6 v2");
  EXPECT_EQ(policy.finished(0, {2, {0, 2}}), "");
  EXPECT_EQ(policy.finished(2, {2, {4, 6}}), "commit 2:0-2,4-6; give 0 3:0-2 v3; give 2 3:4-6 v3");
  EXPECT_EQ(policy.finished(1, {1, {2, 4}}), "drop 1 1:2-4; give 1 3:2-4 v3");
}

TEST(BackupPolicy, GoesOnWithFewerWhereOneLeaves) {
  ToldPolicy policy = three();
  EXPECT_EQ(policy.left(2), "");
  EXPECT_EQ(policy.finished(0, {0, {0, 2}}), "give 0 0:4-6 v0");
  // Two parts suffice. The second part of member 0 is late.
  EXPECT_EQ(policy.finished(1, {0, {2, 4}}), "commit 0:0-2,2-4; give 1 1:3-6 v1");
  EXPECT_EQ(policy.finished(1, {1, {3, 6}}), "commit 1:3-6; give 1 2:3-6 v2");
  EXPECT_EQ(policy.finished(0, {0, {4, 6}}), "drop 0 0:4-6; give 0 2:0-3 v2");
}

TEST(BackupPolicy, WaitsWhereNoMoreThanItsBackupsAreThere) {
  ToldPolicy policy = three();
  EXPECT_EQ(policy.left(2), "");
  EXPECT_EQ(policy.left(1), "");
  EXPECT_EQ(policy.finished(0, {0, {0, 2}}), "give 0 0:2-4 v0");
  EXPECT_EQ(policy.finished(0, {0, {2, 4}}), "commit 0:0-2,2-4");
  EXPECT_EQ(policy.joined(3), "give 0 1:0-3 v1; give 3 1:3-6 v1");
}

// Some of those who were there may have left for good.
TEST(BackupPolicy, DoesNotWaitForAllAfterARestart) {
  ToldPolicy policy =
      policyOf({.target = 9, .grains = 4, .members = 3, .backups = 1}, {.done = 5, .next = 5, .open = {}});
  EXPECT_EQ(policy.joined(0), "");
  EXPECT_EQ(policy.joined(1), "give 0 5:0-2 v5; give 1 5:2-4 v5");
}

TEST(BackupPolicy, WaitsForOnePartAtLeast) {
  ToldPolicy policy = policyOf({.target = 9, .grains = 1, .members = 3, .backups = 2});
  policy.joined(0);
  policy.joined(1);
  EXPECT_EQ(policy.joined(2), "give 0 0:0-1 v0");
  EXPECT_EQ(policy.finished(0, {0, {0, 1}}), "commit 0:0-1; give 0 1:0-1 v1");
}

TEST(BackupPolicy, EndsWithoutWaitingForLateOnes) {
  ToldPolicy policy = three(1);
  policy.finished(0, {0, {0, 2}});
  EXPECT_EQ(policy.finished(1, {0, {2, 4}}), "commit 0:0-2,2-4; end");
  EXPECT_EQ(policy.finished(2, {0, {4, 6}}), "drop 2 0:4-6");
  ToldPolicy halted = three();
  EXPECT_EQ(halted.halted(), "");
  EXPECT_EQ(halted.finished(0, {0, {0, 2}}), "");
  EXPECT_EQ(halted.finished(2, {0, {4, 6}}), "commit 0:0-2,4-6; end");
}

TEST(BackupPolicyDeathTest, WaitsForSomebody) {
  EXPECT_DEATH(synchronousPolicy({.target = 1, .members = 2, .backups = 2}), "somebody is waited for");
}

// Members that come, go and finish in any order.
struct RandomRun {
  RandomRun(unsigned seed, int backupCount)
      : random(seed),
        grains(static_cast<int>(1 + seed % 7)),
        backups(backupCount),
        policy(synchronousPolicy({.target = kTarget, .grains = grains, .members = 3, .backups = backups})) {}

  static constexpr Step kTarget = 30;

  void take(const std::vector<Decision>& decisions) {
    for (const Decision& decision : decisions) {
      if (const auto* assign = std::get_if<Assign>(&decision)) {
        ASSERT_TRUE(works.contains(assign->member));
        EXPECT_FALSE(works[assign->member].has_value());
        EXPECT_EQ(assign->work.step, committed);
        EXPECT_EQ(assign->version, committed);
        works[assign->member] = assign->work;
      } else if (const auto* commit = std::get_if<Commit>(&decision)) {
        EXPECT_EQ(commit->step, committed++);
        for (const GrainRange& range : commit->grains)
          EXPECT_NE(std::ranges::find(finished, Work{commit->step, range}), finished.end());
        if (backups == 0) requireAll(commit->grains);
      } else if (std::holds_alternative<End>(decision)) {
        ++ends;
      } else {
        EXPECT_GT(backups, 0);
      }
    }
  }
  void requireAll(const std::vector<GrainRange>& ranges) const {
    GrainIndex end = 0;
    for (const GrainRange& range : ranges) {
      EXPECT_EQ(range.first, end);
      end = range.last;
    }
    EXPECT_EQ(end, grains);
  }
  void oneEvent() {
    const auto choice = random() % 20;
    if (works.empty() || (choice <= 1 && works.size() < 6)) {
      works[next];
      return take(policy->handle(Joined{next++}));
    }
    const MemberId member =
        std::next(works.begin(), static_cast<std::ptrdiff_t>(random() % works.size()))->first;
    if (choice == 2) {
      works.erase(member);
      return take(policy->handle(Left{member}));
    }
    if (!works[member]) return;
    const Work work = *std::exchange(works[member], std::nullopt);
    finished.push_back(work);
    take(policy->handle(Finished{member, work}));
  }

  std::mt19937 random;
  int grains;
  int backups;
  std::unique_ptr<CenterPolicy> policy;
  std::map<MemberId, std::optional<Work>> works;
  std::vector<Work> finished;
  Step committed = 0;
  MemberId next = 0;
  int ends = 0;
};

TEST(SynchronousPolicy, CommitsEveryStepOnceInOrderWhateverHappens) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomRun run(seed, static_cast<int>(seed % 3));
    for (int i = 0; i < 5000 && run.ends == 0; ++i) run.oneEvent();
    EXPECT_EQ(run.committed, RandomRun::kTarget) << seed;
    EXPECT_EQ(run.ends, 1) << seed;
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace cohort
