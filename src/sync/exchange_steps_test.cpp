// Workers with weights of their own, over a real center in this process, against sequences that were worked out by hand.
#include "sync/exchange_steps.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "center/server.h"
#include "sync/exchange_rule.h"
#include "sync/gossip_rule.h"

namespace cohort {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr std::size_t kFloats = 6;

OwnState::MakeRule elastic(Step every, double alpha) {
  return [=] { return elasticRule(every, alpha); };
}

ParameterLayout someLayout() {
  return ParameterLayout({{.name = "w", .shape = {kFloats}, .initializer = Initializer::constant(0)}});
}

// Two servers; workers whose gradient is -1 everywhere: with rate 1 a step adds 1 to each weight.
class Exchanging : public testing::Test {
 protected:
  struct Worker {
    Worker(Exchanging& test, OwnState::MakeRule makeRule)
        : center(test.connector(), {.recoveryWait = 20, .name = "worker"}),
          layout(someLayout()),
          state(layout, {.optimizer = {.learningRate = 1}, .schedule = {}, .grains = 1},
                std::move(makeRule)) {
      steps = std::make_unique<ExchangeSteps>(&center, state, layout, part());
    }
    ExchangeSteps::Part part() { return {.group = alone, .plan = plan, .division = division}; }
    void gossip() { steps = std::make_unique<GossipSteps>(&center, state, layout, part()); }

    void come(const CenterSetup& setup, std::span<const float> first) {
      if (!center.join().isOpen) {
        ASSERT_TRUE(center.open(setup, {{"weights", first}}));
      }
      center.enter(setup, state.weights());
    }
    // False where there is no more to do.
    bool step() {
      const CenterClient::Order order = center.next();
      if (order.kind != CenterClient::Order::Kind::Compute) return false;
      steps->take(order.work, order.isBeginning);
      steps->beginStep(order.work.step, 0);
      steps->reportLoss(0, {.loss = 3, .samples = 1});
      GradientSink& sink = steps->sinkFor(0);
      for (PieceIndex piece = 0; piece < static_cast<int>(layout.pieces().size()); ++piece) {
        std::ranges::fill(sink.open(piece), -1.0F);
        sink.close(piece);
      }
      EXPECT_EQ(steps->finishStep().loss.loss, 3);
      return true;
    }
    std::vector<float> own() { return {state.weights().begin(), state.weights().end()}; }
    std::vector<float> centers() {
      std::vector<float> floats(kFloats);
      EXPECT_TRUE(center.fetch({{"weights", floats}}));
      return floats;
    }

    CenterClient center;
    ParameterLayout layout;
    OwnState state;
    Communicator alone;
    BucketPlan plan{layout, 1};
    GrainDivision division = GrainDivision::equal(1, 1);
    std::unique_ptr<ExchangeSteps> steps;
  };

  std::shared_ptr<Connector> connector() { return connectorTo({&first_, &second_}); }
  static CenterSetup setup(Step target, const std::string& rule = "mine") {
    CenterSetup setup;
    setup.target = target;
    setup.rule = {.name = rule, .hasOwnWeights = true};
    setup.epoch = {.samples = 1, .batch = 1};
    const ParameterLayout layout = someLayout();
    for (const Parameter& parameter : layout.parameters()) setup.parameters.push_back(parameter);
    return setup;
  }

  CenterServer first_{{.index = 0, .count = 2}};
  CenterServer second_{{.index = 1, .count = 2}};
  std::vector<float> zeros_ = std::vector<float>(kFloats, 0);
};

TEST_F(Exchanging, WorkerAndCenterMoveToEachOtherFromTheValuesBefore) {
  Worker a(*this, elastic(2, 0.25));
  a.come(setup(100), zeros_);
  EXPECT_TRUE(a.step());
  EXPECT_THAT(a.own(), Each(1));
  EXPECT_THAT(a.centers(), Each(0)) << "an exchange is every second step";
  EXPECT_TRUE(a.step());
  // 2 and 0, and a quarter of the difference.
  EXPECT_THAT(a.own(), Each(1.5));
  EXPECT_THAT(a.centers(), Each(0.5));
  // Who comes late begins with what the center has.
  Worker b(*this, elastic(1, 0.5));
  b.come(setup(100), zeros_);
  EXPECT_TRUE(b.step());
  EXPECT_THAT(b.own(), Each(1));
  EXPECT_THAT(b.centers(), Each(1));
  EXPECT_TRUE(a.step());
  EXPECT_TRUE(a.step());
  EXPECT_THAT(a.own(), Each(2.875));
  EXPECT_THAT(a.centers(), Each(1.625));
  EXPECT_THAT(b.own(), Each(1)) << "nobody else's weights move";
}

TEST_F(Exchanging, WithoutASpringWorkersAreIndependent) {
  Worker a(*this, elastic(1, 0));
  Worker b(*this, elastic(1, 0));
  a.come(setup(100), zeros_);
  b.come(setup(100), zeros_);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_TRUE(a.step());
    EXPECT_THAT(a.own(), Each(i));
    if (i % 2 == 0) {
      EXPECT_TRUE(b.step());
    }
  }
  EXPECT_THAT(b.own(), Each(2));
  EXPECT_THAT(a.centers(), Each(0));
}

TEST_F(Exchanging, StepsAreCountedOverAllWorkers) {
  Worker a(*this, elastic(3, 0.5));
  Worker b(*this, elastic(3, 0.5));
  a.come(setup(7), zeros_);
  b.come(setup(7), zeros_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(a.step());
    EXPECT_TRUE(b.step());
  }
  EXPECT_TRUE(a.step());
  EXPECT_FALSE(a.step());
  EXPECT_FALSE(b.step());
}

// When it likes, by what it sees of its own loss.
class FirstLossOnly : public ExchangeRule {
 public:
  bool isDue(const LocalStep& step) override {
    EXPECT_EQ(step.loss, 3);
    return step.count == 3;
  }
  void exchange(std::span<float> own, std::span<const float> center, std::span<float> change) override {
    for (std::size_t i = 0; i < own.size(); ++i) {
      change[i] = 10 * (own[i] - center[i]);
      own[i] = -1;
    }
  }
};

TEST_F(Exchanging, ARuleOfOnesOwnDecidesWhenAndWhat) {
  Worker a(*this, [] { return std::make_unique<FirstLossOnly>(); });
  a.come(setup(100), zeros_);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(a.step());
  EXPECT_THAT(a.own(), Each(0));
  EXPECT_THAT(a.centers(), Each(30));
}

OwnState::MakeRule letters(double probability) {
  return [=] { return gossipRule(probability, 1); };
}

TEST_F(Exchanging, WhoGossipsMixesWhatComes) {
  Worker a(*this, letters(1));
  Worker b(*this, letters(1));
  a.gossip();
  b.gossip();
  a.come(setup(100, "gossip"), zeros_);
  b.come(setup(100, "gossip"), zeros_);
  // Alone, it has all: the center's weights are its own.
  EXPECT_TRUE(a.step());
  EXPECT_THAT(a.centers(), Each(1));
  // From 1 to 2, with half of all; a quarter goes to the other.
  EXPECT_TRUE(b.step());
  EXPECT_THAT(b.own(), Each(2));
  EXPECT_THAT(b.centers(), Each(1.5));
  EXPECT_THAT(a.own(), Each(1)) << "mail waits until it is taken";
  // From 1 to 2, and a quarter of all with 2 comes to a quarter of its own.
  EXPECT_TRUE(a.step());
  EXPECT_THAT(a.own(), Each(2));
  EXPECT_THAT(a.centers(), Each(1.75));
  // To 3, which goes out with an eighth; an eighth is left, and a quarter with 2 comes.
  EXPECT_TRUE(b.step());
  EXPECT_THAT(b.centers(), Each(2.0625));
  EXPECT_THAT(b.own(), Each(testing::FloatEq(3 - 2 / 3.0F)));
  // To 3 with a half, and an eighth with 3 comes to a quarter.
  EXPECT_TRUE(a.step());
  EXPECT_THAT(a.own(), Each(3));
  EXPECT_THAT(a.centers(), Each(2.53125));
}

TEST_F(Exchanging, WithoutLettersWorkersAreIndependent) {
  Worker a(*this, letters(0));
  Worker b(*this, letters(0));
  a.gossip();
  b.gossip();
  a.come(setup(100, "gossip"), zeros_);
  b.come(setup(100, "gossip"), zeros_);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_TRUE(a.step());
    EXPECT_THAT(a.own(), Each(i));
    if (i % 2 == 0) {
      EXPECT_TRUE(b.step());
    }
  }
  EXPECT_THAT(b.own(), Each(2));
  EXPECT_THAT(a.centers(), Each(0));
}

TEST(GossipRule, LettersAreDueByChance) {
  const auto dueOf = [](double probability, std::uint64_t seed, std::uint64_t worker) {
    const auto rule = gossipRule(probability, seed);
    rule->begin(worker);
    std::vector<Step> due;
    for (Step count = 1; count <= 4000; ++count) {
      if (rule->isDue({.count = count})) due.push_back(count);
    }
    return due;
  };
  EXPECT_TRUE(dueOf(0, 1, 2).empty());
  EXPECT_EQ(dueOf(1, 1, 2).size(), 4000u);
  EXPECT_NEAR(static_cast<double>(dueOf(0.25, 1, 2).size()), 1000, 100);
  EXPECT_EQ(dueOf(0.25, 1, 2), dueOf(0.25, 1, 2));
  EXPECT_NE(dueOf(0.25, 1, 2), dueOf(0.25, 2, 2));
  EXPECT_NE(dueOf(0.25, 1, 2), dueOf(0.25, 1, std::uint64_t{3} << 32U));
}

TEST(ExchangeRules, AreFoundByName) {
  ExchangeRules rules = builtinExchangeRules();
  EXPECT_THAT(rules.names(), ElementsAre("easgd", "gossip"));
  rules.add("mine", [](const ExchangeSettings&) { return std::make_unique<FirstLossOnly>(); });
  EXPECT_TRUE(rules.has("mine"));
  EXPECT_NE(rules.make("mine", {}), nullptr);
  EXPECT_THROW(rules.add("easgd", {}), UsageError);
  EXPECT_THROW(rules.add("Not A Name", {}), UsageError);
  EXPECT_THROW(rules.make("other", {}), UsageError);
  const auto easgd = rules.make("easgd", {.every = 4, .alpha = 0.5});
  for (Step count = 1; count <= 8; ++count) EXPECT_EQ(easgd->isDue({.count = count}), count % 4 == 0);
}

}  // namespace
}  // namespace cohort
