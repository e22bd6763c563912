#include "center/shard_store.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

using Floats = std::vector<float>;

constexpr int kGrains = 6;
constexpr std::size_t kBegin = 2;
constexpr std::size_t kEnd = 14;

ParameterLayout testLayout() {
  return ParameterLayout(std::vector<ParameterSpec>{{.name = "a", .shape = {3, 3}, .initializer = {}},
                                                    {.name = "mean",
                                                     .shape = {3},
                                                     .initializer = {},
                                                     .kind = ParameterKind::RunningStatistic,
                                                     .statisticDecay = 0.75F},
                                                    {.name = "b", .shape = {4}, .initializer = {}}});
}

ShardOptions optionsOf(const OptimizerOptions& optimizer) {
  return {.optimizer = optimizer,
          .schedule = parseSchedule("steps:2,0.5", {.samples = 10, .batch = 5}),
          .grains = kGrains,
          .begin = kBegin,
          .end = kEnd};
}

const OptimizerOptions kSgd{.kind = OptimizerKind::Sgd, .learningRate = 0.5};
const OptimizerOptions kMomentum{.kind = OptimizerKind::Momentum, .learningRate = 0.1, .averageDecay = 0.5};

// Exact in float: a compiler that computes some of it beforehand changes no bit.
Floats gradientOf(int number) {
  Floats values(kEnd - kBegin);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((number * 17 + static_cast<int>(i) * 7) % 23 - 11) / 8;
  return values;
}

FloatBuffer filled(ShardStore& store, const Floats& values) {
  FloatBuffer buffer = store.takeBuffer();
  std::ranges::copy(values, buffer.data());
  return buffer;
}

Floats weightsOf(ShardStore& store) {
  return {store.weights().begin(), store.weights().end()};
}

// A shard of the same options, updated by hand.
struct Plain {
  explicit Plain(const OptimizerOptions& optimizer)
      : weights(kEnd - kBegin), shard(testLayout(), optionsOf(optimizer), weights) {}
  void update(const Floats& gradient, Step step, double rate = 1) {
    shard.update(kBegin, gradient, step, rate);
  }

  Floats weights;
  Shard shard;
};

// ---- at once

TEST(ShardStoreAtOnce, MakesAnUpdateOfEachGradientInTheOrderOfTheirComing) {
  ShardStore store(testLayout(), optionsOf(kMomentum), Acceptance::AtOnce, false);
  Plain plain(kMomentum);
  int number = 0;
  for (const Step step : {3, 0, 1, 7, 2, 5}) {
    EXPECT_TRUE(store.push({.step = step}, filled(store, gradientOf(number))));
    plain.update(gradientOf(number), number);  // a version is what schedules count
    ++number;
    EXPECT_EQ(store.version(), number);
  }
  EXPECT_EQ(weightsOf(store), plain.weights);
  const std::vector<Shard::Slot> slots = store.slots();
  const std::vector<Shard::Slot> expected = plain.shard.slots();
  ASSERT_EQ(slots.size(), expected.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(slots[i].name, expected[i].name);
    EXPECT_TRUE(std::ranges::equal(slots[i].values, expected[i].values)) << slots[i].name;
  }
}

TEST(ShardStoreAtOnce, AppliesNoStepTwice) {
  ShardStore store(testLayout(), optionsOf(kMomentum), Acceptance::AtOnce, false);
  store.push({.step = 4}, filled(store, gradientOf(0)));
  const Floats once = weightsOf(store);
  EXPECT_FALSE(store.push({.step = 4}, filled(store, gradientOf(1))));
  EXPECT_EQ(weightsOf(store), once);
  EXPECT_EQ(store.version(), 1);
}

TEST(ShardStoreAtOnce, KnowsAfterARestartWhatWasApplied) {
  ShardStore store(testLayout(), optionsOf(kSgd), Acceptance::AtOnce, false);
  StepSet applied(3);
  applied.insert(5);
  store.restore(4, std::move(applied));
  EXPECT_EQ(store.version(), 4);
  EXPECT_FALSE(store.push({.step = 2}, filled(store, gradientOf(0))));
  EXPECT_FALSE(store.push({.step = 5}, filled(store, gradientOf(0))));
  EXPECT_TRUE(store.push({.step = 3}, filled(store, gradientOf(0))));
  EXPECT_EQ(store.applied().below(), 4);
  EXPECT_EQ(store.version(), 5);
}

TEST(ShardStoreAtOnce, CountsUpdatesByTheirStaleness) {
  ShardStore store(testLayout(), optionsOf(kSgd), Acceptance::AtOnce, false);
  Step step = 0;
  const auto pushWith = [&](Step staleness) {
    store.push({.step = step++, .basis = store.version() - staleness}, filled(store, gradientOf(0)));
  };
  for (int i = 0; i < 20; ++i) pushWith(0);
  for (const Step staleness : {1, 2, 3, 4, 7, 8, 15, 16}) pushWith(staleness);
  pushWith(-5);  // weights of the future are none
  const auto counts = store.stalenessCounts();
  EXPECT_EQ(std::vector<std::int64_t>(counts.begin(), counts.end()),
            (std::vector<std::int64_t>{21, 1, 2, 2, 2, 1}));
}

TEST(ShardStoreAtOnce, DividesTheLearningRateByTheStalenessWhereItIsTold) {
  for (const bool scales : {false, true}) {
    ShardStore store(testLayout(), optionsOf(kMomentum), Acceptance::AtOnce, scales);
    Plain plain(kMomentum);
    const std::vector<Step> stalenesses = {0, 1, 2, 2, 4, 3};
    for (int number = 0; number < std::ssize(stalenesses); ++number) {
      const Step staleness = stalenesses[static_cast<std::size_t>(number)];
      store.push({.step = number, .basis = number - staleness}, filled(store, gradientOf(number)));
      plain.update(gradientOf(number), number,
                   scales && staleness > 1 ? 1 / static_cast<double>(staleness) : 1);
    }
    EXPECT_EQ(weightsOf(store), plain.weights) << scales;
  }
}

// ---- when complete

TEST(ShardStoreWhenComplete, MakesOneUpdateOfAStep) {
  ShardStore store(testLayout(), optionsOf(kMomentum), Acceptance::WhenComplete, false);
  const GrainTree tree(kGrains);
  Plain plain(kMomentum);
  for (Step step = 0; step < 3; ++step) {
    const Floats left = gradientOf(static_cast<int>(2 * step));
    const Floats right = gradientOf(static_cast<int>(2 * step + 1));
    EXPECT_TRUE(store.push({.step = step, .node = tree.node(0).right}, filled(store, right)));
    EXPECT_FALSE(store.push({.step = step, .node = tree.node(0).right}, filled(store, left)));
    EXPECT_EQ(store.version(), step);
    EXPECT_TRUE(store.push({.step = step, .node = tree.node(0).left}, filled(store, left)));
    EXPECT_FALSE(store.push({.step = step, .node = tree.node(0).left}, filled(store, left)));
    Floats sum = left;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
    plain.update(sum, step);
    EXPECT_EQ(store.version(), step + 1);
  }
  EXPECT_EQ(weightsOf(store), plain.weights);
}

TEST(ShardStoreWhenComplete, KnowsWhichGrainsHaveCome) {
  ShardStore store(testLayout(), optionsOf(kMomentum), Acceptance::WhenComplete, false);
  const GrainTree tree(kGrains);
  const GrainRange right = tree.node(tree.node(0).right).grains;
  EXPECT_FALSE(store.hasCome(0, right));
  store.push({.step = 0, .node = tree.node(0).right}, filled(store, gradientOf(0)));
  EXPECT_TRUE(store.hasCome(0, right));
  EXPECT_FALSE(store.hasCome(0, {0, kGrains}));
  EXPECT_FALSE(store.hasCome(1, right));
  store.push({.step = 0, .node = tree.node(0).left}, filled(store, gradientOf(1)));
  EXPECT_TRUE(store.hasCome(0, {0, kGrains}));
  EXPECT_FALSE(store.hasCome(1, right));
}

// ---- on commit

struct Committed {
  Committed() : store(testLayout(), optionsOf(kSgd), Acceptance::OnCommit, false) {}

  bool push(Step step, GrainRange grains) {
    const std::vector<int> nodes = tree.cover(grains);
    EXPECT_EQ(nodes.size(), 1U);
    return store.push({.step = step, .node = nodes.front()}, filled(store, gradientOf(grains.first)));
  }
  bool commit(Step step, const std::vector<GrainRange>& grains) { return store.commit(step, grains); }

  GrainTree tree{kGrains};  // ((0 1) 2) ((3 4) 5)
  ShardStore store;
};

TEST(ShardStoreOnCommit, WaitsForTheWordAndRefusesWhatHasNotCome) {
  Committed c;
  EXPECT_FALSE(c.commit(0, {{0, 2}}));
  EXPECT_TRUE(c.push(0, {0, 2}));
  EXPECT_TRUE(c.push(0, {3, 6}));
  EXPECT_FALSE(c.push(0, {0, 2}));
  EXPECT_FALSE(c.push(0, {1, 2}));
  EXPECT_FALSE(c.commit(0, {{0, 2}, {2, 3}}));
  EXPECT_FALSE(c.commit(0, {{0, 1}}));  // a part of what came as one
  EXPECT_FALSE(c.commit(1, {{0, 2}}));
  EXPECT_EQ(c.store.version(), 0);
  EXPECT_EQ(weightsOf(c.store), Floats(kEnd - kBegin));
  EXPECT_TRUE(c.commit(0, {{0, 2}}));
  EXPECT_EQ(c.store.version(), 1);
  EXPECT_FALSE(c.commit(0, {{0, 2}}));
  EXPECT_FALSE(c.push(0, {2, 3}));  // too late
}

TEST(ShardStoreOnCommit, ScalesAPartToTheWholeBatch) {
  Committed c;
  c.push(0, {0, 2});
  c.push(0, {2, 3});
  c.push(0, {3, 5});
  ASSERT_TRUE(c.commit(0, {{0, 2}, {3, 5}}));
  Plain plain(kSgd);
  Floats sum = gradientOf(0);
  const Floats right = gradientOf(3);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = (sum[i] + right[i]) * 1.5F;  // 6 grains for 4
  plain.update(sum, 0);
  EXPECT_EQ(weightsOf(c.store), plain.weights);
}

TEST(ShardStoreOnCommit, OfAllGrainsIsTheWholeSum) {
  Committed c;
  c.push(0, {3, 6});
  c.push(0, {0, 3});
  ASSERT_TRUE(c.commit(0, {{0, 3}, {3, 6}}));
  Plain plain(kSgd);
  Floats sum = gradientOf(0);
  const Floats right = gradientOf(3);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  plain.update(sum, 0);
  EXPECT_EQ(weightsOf(c.store), plain.weights);
}

// ---- weights

TEST(ShardStore, ASnapshotStaysAsItIs) {
  ShardStore store(testLayout(), optionsOf(kSgd), Acceptance::AtOnce, false);
  std::ranges::fill(store.weights(), 3.0F);
  store.restore(0, StepSet(0));
  const auto before = store.snapshot();
  EXPECT_EQ(store.snapshot(), before);  // one copy for all who ask
  store.push({.step = 0}, filled(store, Floats(kEnd - kBegin, 1)));
  EXPECT_EQ(Floats(before->span().begin(), before->span().end()), Floats(kEnd - kBegin, 3.0F));
  const auto after = store.snapshot();
  EXPECT_TRUE(std::ranges::equal(after->span(), store.weights()));
  EXPECT_EQ(after->span()[0], 2.5F);
}

TEST(ShardStore, ASnapshotIsTakenAnewAfterARestoration) {
  ShardStore store(testLayout(), optionsOf(kSgd), Acceptance::AtOnce, false);
  store.snapshot();
  std::ranges::fill(store.weights(), 3.0F);
  store.restore(0, StepSet(0));
  EXPECT_EQ(store.snapshot()->span()[0], 3.0F);
}

TEST(ShardStore, KnowsItsSlice) {
  ShardStore store(testLayout(), optionsOf(kSgd), Acceptance::AtOnce, false);
  EXPECT_EQ(store.slice(), (ArenaRange{kBegin, kEnd}));
  EXPECT_EQ(store.takeBuffer().size(), kEnd - kBegin);
}

}  // namespace
}  // namespace cohort
