// A server's brain, word by word: gradients, weights, work and the run's end.
#include <limits>

#include <gtest/gtest.h>

#include "base/test_error.h"
#include "center/test_center.h"

namespace cohort {
namespace {

using What = wire::Envelope::WhatCase;
using Kinds = std::vector<What>;
using Floats = std::vector<float>;

// An open run with one member, 1, and a worker, 2, that has only greeted.
struct CenterWork : testing::Test {
  CenterWork() { begin(tinySetup()); }
  void begin(const CenterSetup& setup) {
    center = std::make_unique<SpokenCenter>();
    center->open(1, setup);
    center->say(2, words::hello({.token = 2}));
    center->take(1);
    center->take(2);
  }
  Floats weights(LinkId id, Step version = 0) {
    center->take(id);
    EXPECT_TRUE(center->say(id, words::pull(version)));
    const auto heard = center->take(id);
    EXPECT_EQ(heard.size(), 1U);
    return heard.empty() ? Floats() : heard[0].floats;
  }

  std::unique_ptr<SpokenCenter> center;
};

// ---- gradients

TEST_F(CenterWork, TakesAGradientInAnyStretches) {
  EXPECT_TRUE(center->say(1, words::push({.offset = 7}), Floats(4, 1)));
  EXPECT_TRUE(center->say(1, words::push({.offset = 0}), Floats(1, 2)));
  EXPECT_EQ(center->kinds(1), Kinds{});
  EXPECT_TRUE(center->say(1, words::push({.offset = 1}), Floats(6, 4)));
  const auto heard = center->take(1);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].head.received().step(), 0);
  EXPECT_EQ(heard[0].head.received().node(), 0);
  EXPECT_EQ(weights(1), (Floats{-1, -2, -2, -2, -2, -2, -2, -0.5, -0.5, -0.5, -0.5}));
}

TEST_F(CenterWork, KeepsGradientsOfDifferentWorkersApart) {
  center->say(2, words::enter());
  center->take(2);
  EXPECT_TRUE(center->say(1, words::push({.step = 3}), Floats(5, 1)));
  EXPECT_TRUE(center->say(2, words::push({.step = 3}), Floats(5, 8)));
  EXPECT_TRUE(center->say(1, words::push({.step = 3, .offset = 5}), Floats(6, 1)));
  EXPECT_EQ(weights(1, 1), Floats(kTinySize, -0.5F));
  EXPECT_TRUE(center->say(2, words::push({.step = 3, .offset = 5}), Floats(6, 8)));
  EXPECT_EQ(center->kinds(2), Kinds{What::kReceived});  // as a duplicate
  EXPECT_EQ(weights(1, 1), Floats(kTinySize, -0.5F));
}

TEST_F(CenterWork, RefusesGradientsThatMakeNoSense) {
  const auto refusal = [&](const words::PushOptions& options, std::size_t bytes) {
    begin(tinySetup());
    center->say(2, words::enter());
    EXPECT_TRUE(center->say(2, words::push({.step = 5, .offset = 3}), Floats(2)));
    return center->refusalOf(2, words::push(options), std::vector<std::byte>(bytes));
  };
  EXPECT_EQ(refusal({.step = 5, .offset = 5}, 24), "taken");
  EXPECT_EQ(refusal({.step = 5, .offset = 4}, 4), "these floats came before");
  EXPECT_EQ(refusal({.step = 5, .offset = 0}, 44), "these floats came before");
  EXPECT_EQ(refusal({.step = 5, .offset = 5}, 28), "these floats are not this server's");
  EXPECT_EQ(refusal({.step = 5, .offset = 11}, 4), "these floats are not this server's");
  EXPECT_EQ(refusal({.step = 5, .offset = ~std::uint64_t{0} - 3}, 16), "these floats are not this server's");
  EXPECT_EQ(refusal({.step = 5, .offset = 5}, 0), "floats have four bytes each");
  EXPECT_EQ(refusal({.step = 5, .offset = 5}, 7), "floats have four bytes each");
  EXPECT_EQ(refusal({.step = -1}, 4), "a gradient belongs to a node of a step");
  EXPECT_EQ(refusal({.node = -1}, 4), "a gradient belongs to a node of a step");
  EXPECT_EQ(refusal({.node = 3}, 4), "a gradient belongs to a node of a step");
  EXPECT_EQ(refusal({.node = 2}, 4),
            "a gradient is a whole batch's where it counts alone, and of no step to come where not");
}

TEST_F(CenterWork, RefusesGradientsOfWeightsThatNeverWere) {
  center->say(2, words::enter());
  center->take(2);
  EXPECT_EQ(center->refusalOf(2, words::push({.basis = -1}), std::vector<std::byte>(44)),
            "a gradient belongs to a node of a step");
  center->say(3, words::hello({.token = 3}));
  EXPECT_FALSE(center->push(3, {.basis = std::numeric_limits<Step>::min()}));
  EXPECT_EQ(weights(1), Floats(kTinySize));
}

TEST_F(CenterWork, RefusesTooManyGradientsAtOnce) {
  center->say(2, words::enter());
  center->take(2);
  for (Step step = 0; step < 64; ++step) EXPECT_TRUE(center->say(2, words::push({.step = step}), Floats(1)));
  EXPECT_TRUE(center->say(2, words::push({.step = 7, .offset = 1}), Floats(1)));
  EXPECT_EQ(center->refusalOf(2, words::push({.step = 64}), std::vector<std::byte>(4)),
            "there are too many gradients on their way");
  EXPECT_TRUE(center->push(1, {.step = 0}));
}

TEST_F(CenterWork, RefusesGradientsOfStepsToCome) {
  for (const char* rule : {"bsp", "backup"}) {
    begin(tinySetup(rule));
    EXPECT_TRUE(center->push(2, {.step = 0, .node = 1}));
    EXPECT_EQ(center->refusalOf(2, words::push({.step = 1}), std::vector<std::byte>(44)),
              "a gradient is a whole batch's where it counts alone, and of no step to come where not");
  }
  begin(tinySetup("async"));
  EXPECT_TRUE(center->push(1, {.step = 99}));
  EXPECT_FALSE(center->push(1, {.step = 100}));  // behind its target
}

TEST_F(CenterWork, TakesNoGradientsFromThoseWhoHaveNotEntered) {
  center->say(3, words::hello({.token = 3}));
  center->take(3);
  EXPECT_TRUE(center->push(3, {.step = 0}));
  EXPECT_EQ(center->kinds(3), Kinds{});
  EXPECT_EQ(weights(1), Floats(kTinySize));
}

// ---- weights

TEST_F(CenterWork, AnswersAPullWhenItsVersionIsThere) {
  EXPECT_TRUE(center->say(2, words::pull(2, 31, {"momentum", "weights"})));
  EXPECT_TRUE(center->push(1, {.step = 0}));
  EXPECT_EQ(center->kinds(2), Kinds{});
  EXPECT_TRUE(center->push(1, {.step = 1}));
  const auto heard = center->take(2);
  ASSERT_EQ(heard.size(), 2U);
  for (std::uint32_t arena = 0; arena < 2; ++arena) {
    const wire::Floats& head = heard[arena].head.floats();
    EXPECT_EQ(head.ticket(), 31U);
    EXPECT_EQ(head.version(), 2);
    EXPECT_EQ(head.arena(), arena);
    EXPECT_EQ(head.offset(), 0U);
  }
  EXPECT_EQ(heard[0].floats, Floats(kTinySize, 1.9F));
  EXPECT_EQ(heard[1].floats, Floats(kTinySize, -0.5F - 0.95F));
  EXPECT_TRUE(center->push(1, {.step = 2}));
  EXPECT_EQ(center->kinds(2), Kinds{});  // once
}

TEST_F(CenterWork, RefusesPullsThatMakeNoSense) {
  const auto refusal = [&](const wire::Envelope& word) {
    begin(tinySetup());
    return center->refusalOf(2, word);
  };
  EXPECT_EQ(refusal(words::pull(0, 1, {})), "it asks for nothing, or too much");
  EXPECT_EQ(refusal(words::pull(0, 1, std::vector<std::string>(9, "weights"))),
            "it asks for nothing, or too much");
  EXPECT_EQ(refusal(words::pull(0, 1, {"weights", "moment1"})), "the run has no such slot");
  EXPECT_EQ(refusal(words::pull(5, 1, {"moment1"})), "the run has no such slot");
  EXPECT_EQ(refusal(words::pull(-5)), "taken");
}

TEST_F(CenterWork, AnswersTheLastPullAlone) {
  for (std::uint64_t ticket = 0; ticket < 9; ++ticket) EXPECT_TRUE(center->say(2, words::pull(1, ticket)));
  EXPECT_TRUE(center->push(1, {.step = 0}));
  const auto heard = center->take(2);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].head.floats().ticket(), 8U);
}

// ---- strangers

TEST_F(CenterWork, IsNotDisturbedByNonsense) {
  LinkId stranger = 100;
  wire::Envelope answer;
  answer.mutable_floats();
  const std::vector<wire::Envelope> nonsense = {
      wire::Envelope(),      answer,          words::hello({.token = 100}), words::setup(tinySetup()),
      words::load(kWeights), words::loaded(), words::push({.node = 9}),     words::pull(0, 1, {"nothing"})};
  Step step = 0;
  for (const wire::Envelope& word : nonsense) {
    ++stranger;
    EXPECT_TRUE(center->say(stranger, words::hello({.token = stranger})));
    center->take(stranger);
    center->take(1);
    EXPECT_FALSE(center->say(stranger, word)) << word.ShortDebugString();
    EXPECT_EQ(center->kinds(stranger), Kinds{What::kRefused});
    EXPECT_EQ(center->kinds(1), Kinds{});
    EXPECT_TRUE(center->push(1, {.step = step}, 0));
    EXPECT_TRUE(center->say(1, words::finished({step++, {0, 2}})));
    EXPECT_EQ(center->kinds(1), (Kinds{What::kReceived, What::kAssign}));
  }
  EXPECT_EQ(weights(1), Floats(kTinySize));
}

TEST_F(CenterWork, RefusesFinishedWorkThatMakesNoSense) {
  const auto refusal = [&](const Work& work, auto&& change) {
    begin(tinySetup());
    center->push(1, {.step = 0});
    wire::Envelope word = words::finished(work);
    change(*word.mutable_finished());
    return center->refusalOf(1, word);
  };
  const auto asItIs = [](wire::Finished&) {};
  const char* sentence = "work has a loss for each grain";
  EXPECT_EQ(refusal({0, {0, 2}}, asItIs), "taken");
  EXPECT_EQ(refusal({0, {-1, 2}}, asItIs), sentence);
  EXPECT_EQ(refusal({0, {0, 3}}, asItIs), sentence);
  EXPECT_EQ(refusal({0, {1, 1}}, asItIs), sentence);
  EXPECT_EQ(refusal({0, {2, 0}}, asItIs), sentence);
  EXPECT_EQ(refusal({0, {0, 2}}, [](wire::Finished& f) { f.mutable_losses()->RemoveLast(); }), sentence);
  EXPECT_EQ(refusal({0, {0, 2}}, [](wire::Finished& f) { f.add_losses(); }), sentence);
  EXPECT_EQ(refusal({1, {0, 2}}, asItIs), "these gradients have not come");
}

TEST_F(CenterWork, RefusesLossesThatCannotBeAdded) {
  const auto refusal = [&](auto&& change) {
    begin(tinySetup());
    center->push(1, {.step = 0});
    wire::Envelope word = words::finished({0, {0, 2}});
    for (wire::Loss& loss : *word.mutable_finished()->mutable_losses()) change(loss);
    return center->refusalOf(1, word);
  };
  const char* sentence = "a grain has no such number of samples";
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(refusal([](wire::Loss& loss) { loss.set_samples(kHuge); }), sentence);
  EXPECT_EQ(refusal([](wire::Loss& loss) { loss.set_samples(-1); }), sentence);
  EXPECT_EQ(refusal([](wire::Loss& loss) { loss.set_top1(kHuge); }), sentence);
  EXPECT_EQ(refusal([](wire::Loss& loss) { loss.set_top5(-kHuge); }), sentence);
  EXPECT_EQ(refusal([](wire::Loss& loss) { loss.set_loss(-1e300); }), "taken");
}

// ---- members

TEST_F(CenterWork, IsGivenToMembersWhoEnterOnce) {
  EXPECT_EQ(center->refusalOf(1, words::enter()), "a worker enters once, at the first server");
  EXPECT_TRUE(center->say(2, words::enter()));
  const auto orders = center->take(2);
  ASSERT_EQ(orders.size(), 2U);
  EXPECT_EQ(orders[0].head.assign().work().step(), 0);  // the one's who is gone
  EXPECT_EQ(orders[1].head.assign().work().step(), 1);
  EXPECT_EQ(orders[0].head.assign().work().last(), 2);
  EXPECT_TRUE(orders[0].head.assign().state().is_chief());
}

TEST_F(CenterWork, TellsLossesOfWholeStepsToEachMemberOnce) {
  center->say(2, words::enter());
  center->take(2);
  wire::Envelope word = words::finished({0, {0, 2}});
  word.mutable_finished()->mutable_losses(1)->set_loss(0.25);
  word.mutable_finished()->mutable_losses(1)->set_top1(2);
  center->finish(1, word);
  wire::State state = center->last(1, What::kAssign).assign().state();
  EXPECT_EQ(state.loss().loss(), 1.25);
  EXPECT_EQ(state.loss().samples(), 4);
  EXPECT_EQ(state.loss().top1(), 2);
  EXPECT_EQ(state.done(), 1);
  center->finish(1, 1);
  EXPECT_EQ(center->last(1, What::kAssign).assign().state().loss().loss(), 2);
  center->finish(2, 2);
  state = center->last(2, What::kAssign).assign().state();
  EXPECT_EQ(state.loss().loss(), 1.25 + 2 + 2);
  EXPECT_EQ(state.loss().samples(), 12);
  EXPECT_EQ(state.done(), 3);
  center->finish(2, 2);  // twice: dropped
  EXPECT_EQ(center->kinds(2), Kinds{});
  center->finish(2, 3);
  state = center->last(2, What::kAssign).assign().state();
  EXPECT_EQ(state.loss().loss(), 2);
}

TEST_F(CenterWork, OfAnotherSizeIsDropped) {
  EXPECT_TRUE(center->finish(1, words::finished({0, {0, 1}})));
  EXPECT_EQ(center->kinds(1), Kinds{});
  EXPECT_TRUE(center->finish(1, 0));
  const wire::State state = center->last(1, What::kAssign).assign().state();
  EXPECT_EQ(state.done(), 1);
  EXPECT_EQ(state.loss().samples(), 4);
}

TEST_F(CenterWork, OfWhoComesAgainIsGivenOutAnew) {
  center->say(3, words::hello({.token = 1}));
  EXPECT_TRUE(center->last(3, What::kWelcome).welcome().is_open());
  EXPECT_FALSE(center->center.hasMembers());
  EXPECT_FALSE(center->say(1, words::finished({0, {0, 2}})));  // the old link is nobody's
  center->say(3, words::enter());
  const auto orders = center->take(3);
  ASSERT_EQ(orders.size(), 2U);
  EXPECT_EQ(orders[0].head.assign().work().step(), 0);
  EXPECT_TRUE(orders[0].head.assign().state().is_chief());
}

TEST_F(CenterWork, OfALeaverIsGivenToOthers) {
  center->say(2, words::enter());
  center->finish(2, 2);
  center->finish(2, 3);
  center->take(2);
  EXPECT_TRUE(center->say(1, words::bye()));
  EXPECT_EQ(center->kinds(2), Kinds{});  // it has two already
  center->finish(2, 4);
  const wire::Assign assign = center->last(2, What::kAssign).assign();
  EXPECT_EQ(assign.work().step(), 0);
  EXPECT_TRUE(assign.state().is_chief());
  EXPECT_TRUE(center->say(1, words::enter()));  // and back again
}

// ---- the chief and the end

// Members 1, 2 and 3 have steps 0 and 1, 2 and 3, 4 and 5.
struct CenterEnd : CenterWork {
  CenterEnd() {
    center->say(2, words::enter());
    center->join(3);
    for (const LinkId id : {1, 2, 3}) center->take(id);
  }
  void finishAll() {
    for (const LinkId id : {1, 2, 3}) {
      for (const Step step : {0, 1}) center->finish(id, 2 * (static_cast<Step>(id) - 1) + step);
    }
  }
};

TEST_F(CenterEnd, OfTheChiefNamesTheOldestOfTheOthers) {
  center->close(1);
  center->finish(3, 4);
  EXPECT_FALSE(center->last(3, What::kAssign).assign().state().is_chief());
  center->finish(2, 2);
  EXPECT_TRUE(center->last(2, What::kAssign).assign().state().is_chief());
}

TEST_F(CenterEnd, OfTheChiefTellsNoLossTwice) {
  center->finish(3, 4);  // 1 and 2 have not heard of it
  center->close(1);
  center->finish(2, 2);
  const wire::State state = center->last(2, What::kAssign).assign().state();
  EXPECT_TRUE(state.is_chief());
  EXPECT_EQ(state.done(), 2);
  EXPECT_EQ(state.loss().samples(), 8);
}

TEST_F(CenterEnd, IsToldWhenAllIsFinished) {
  center->center.halt(true);
  center->center.halt(false);  // the first word counts
  EXPECT_EQ(center->kinds(1), Kinds{});
  finishAll();
  for (const LinkId id : {1, 2, 3}) {
    const wire::End end = center->last(id, What::kEnd).end();
    EXPECT_TRUE(end.is_interrupted());
    EXPECT_EQ(end.state().is_chief(), id == 1);
    EXPECT_EQ(end.state().done(), 6);
  }
  EXPECT_FALSE(center->center.isOver());
  EXPECT_FALSE(center->center.hasSnapshot());
}

TEST_F(CenterEnd, ByAMembersWishIsNoInterruption) {
  EXPECT_TRUE(center->say(2, words::halt()));
  finishAll();
  EXPECT_FALSE(center->last(3, What::kEnd).end().is_interrupted());
}

TEST_F(CenterEnd, IsSettledByTheChiefAlone) {
  EXPECT_TRUE(center->say(3, words::settled()));
  center->say(4, words::hello({.token = 4}));
  EXPECT_TRUE(center->say(4, words::settled()));
  center->center.halt(false);
  finishAll();
  EXPECT_EQ(center->kinds(2).back(), What::kEnd);
  EXPECT_FALSE(center->center.isOver());
  center->take(1);
  EXPECT_TRUE(center->say(1, words::settled()));
  EXPECT_TRUE(center->center.isOver());
  EXPECT_EQ(center->kinds(1), Kinds{What::kOver});
  EXPECT_EQ(center->kinds(2), Kinds{What::kOver});
  center->join(5);
  EXPECT_EQ(center->kinds(5), (Kinds{What::kWelcome, What::kEnd, What::kOver}));
}

TEST_F(CenterEnd, IsNotSettledByOtherMembers) {
  center->center.halt(false);
  finishAll();
  EXPECT_TRUE(center->say(2, words::settled()));
  EXPECT_FALSE(center->center.isOver());
  center->take(3);
  EXPECT_TRUE(center->say(1, words::settled()));
  EXPECT_EQ(center->kinds(3), Kinds{What::kOver});
}

TEST_F(CenterEnd, IsNotSettledBeforeIt) {
  EXPECT_TRUE(center->say(1, words::settled()));
  EXPECT_FALSE(center->center.isOver());
}

TEST_F(CenterEnd, PassesTheLastDutiesOnWhereTheChiefDies) {
  center->center.halt(false);
  finishAll();
  for (const LinkId id : {2, 3}) center->take(id);
  center->close(1);
  EXPECT_TRUE(center->last(2, What::kEnd).end().state().is_chief());
  EXPECT_EQ(center->kinds(3), Kinds{});
  for (const LinkId id : {2, 3}) center->close(id);
  center->join(6);  // the last hope
  EXPECT_TRUE(center->last(6, What::kEnd).end().state().is_chief());
  EXPECT_TRUE(center->say(6, words::settled()));
  EXPECT_TRUE(center->center.isOver());
}

// ---- steps that are shared

TEST(SharedSteps, OfBspAreOneUpdate) {
  SpokenCenter center;
  center.open(1, tinySetup("bsp"));
  center.join(2);
  EXPECT_EQ(center.kinds(2), Kinds{What::kWelcome});  // it waits for the next step
  EXPECT_TRUE(center.push(1, {}));
  EXPECT_TRUE(center.say(1, words::finished({0, {0, 2}})));
  wire::Assign assign = center.last(1, What::kAssign).assign();
  EXPECT_EQ(assign.work().step(), 1);
  EXPECT_EQ(assign.work().last(), 1);
  EXPECT_EQ(assign.version(), 1);
  EXPECT_FALSE(assign.has_commit_step());
  assign = center.last(2, What::kAssign).assign();
  EXPECT_EQ(assign.work().first(), 1);
}

CenterSetup backupSetup() {
  CenterSetup setup = tinySetup("backup", 3);
  setup.rule.members = 3;
  setup.rule.backups = 1;
  return setup;
}

// Members 1, 2 and 3 with a grain each: nodes 2, 3 and 4 of (0 1) 2.
struct Backups : testing::Test {
  Backups() {
    center.open(1, backupSetup());
    center.join(2);
    center.join(3);
    for (const LinkId id : {1, 2, 3}) center.take(id);
  }
  bool finish(LinkId id, Step step = 0) {
    const auto grain = static_cast<GrainIndex>(id) - 1;
    return center.say(id, words::finished({step, {grain, grain + 1}}));
  }

  SpokenCenter center;
};

TEST_F(Backups, AreLeftOutAndTheRestIsCommitted) {
  EXPECT_TRUE(center.push(1, {.node = 2}, 1));
  EXPECT_TRUE(finish(1));
  EXPECT_EQ(center.kinds(1), Kinds{What::kReceived});
  EXPECT_TRUE(center.push(3, {.node = 4}, 3));
  EXPECT_TRUE(finish(3));
  const wire::Assign assign = center.last(3, What::kAssign).assign();
  EXPECT_EQ(assign.work().step(), 1);
  EXPECT_EQ(assign.version(), 1);
  EXPECT_EQ(assign.commit_step(), 0);
  ASSERT_EQ(assign.commit_size(), 2);
  EXPECT_EQ(assign.commit(1).first(), 2);
  EXPECT_EQ(assign.commit(1).last(), 3);
  EXPECT_EQ(assign.state().loss().samples(), 4);
  EXPECT_TRUE(center.say(3, words::commit(0, {{0, 1}, {2, 3}})));  // the first server knows already
  const auto heard = center.take(3);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].floats, Floats(kTinySize, -3.0F));  // (1 + 3) * 3 / 2 * 0.5
  EXPECT_TRUE(center.push(2, {.node = 3}, 100));         // late
  EXPECT_TRUE(finish(2));
}

TEST_F(Backups, WithoutGradientsAreRefused) {
  EXPECT_TRUE(center.push(1, {.node = 2}));
  EXPECT_TRUE(finish(1));
  EXPECT_FALSE(finish(2));
  EXPECT_EQ(center.last(2, What::kRefused).refused().sentence(), "these gradients have not come");
  EXPECT_TRUE(center.push(3, {.node = 4}));
  EXPECT_TRUE(finish(3));
  EXPECT_EQ(center.last(3, What::kAssign).assign().commit_step(), 0);
}

TEST_F(Backups, AreNotCommittedAtTheFirstServerByWorkers) {
  EXPECT_TRUE(center.push(1, {.node = 2}));
  center.take(1);
  EXPECT_TRUE(center.say(1, words::commit(0, {{0, 1}})));
  EXPECT_EQ(center.kinds(1), Kinds{});  // it waits for the next weights
  EXPECT_TRUE(finish(1));
  EXPECT_TRUE(center.push(2, {.node = 3}));
  EXPECT_TRUE(finish(2));
  EXPECT_EQ(center.kinds(1), (Kinds{What::kFloats, What::kAssign}));
}

struct SecondServerOfBackups : testing::Test {
  SecondServerOfBackups() {
    greet(1);
    center.load(1, backupSetup());
    center.take(1);
  }
  void greet(LinkId id) { center.say(id, words::hello({.token = id, .server = 1, .servers = 2})); }
  std::string refusalOfCommit(const std::vector<GrainRange>& grains) {
    greet(++last);
    return center.refusalOf(last, words::commit(0, grains));
  }

  SpokenCenter center{{.index = 1, .count = 2}};  // floats 5 to 10
  LinkId last = 10;
};

TEST_F(SecondServerOfBackups, CommitsWhatAWorkerWasTold) {
  for (const int node : {2, 4})
    center.say(1, words::push({.node = node, .offset = 5}), Floats(6, static_cast<float>(node)));
  EXPECT_EQ(refusalOfCommit({}), "these gradients have not come");
  EXPECT_EQ(refusalOfCommit({{0, 1}, {1, 2}}), "these gradients have not come");
  EXPECT_EQ(refusalOfCommit({{-1, 1}}), "grains are those of the step");
  EXPECT_EQ(refusalOfCommit({{0, 4}}), "grains are those of the step");
  EXPECT_EQ(refusalOfCommit({{1, 1}}), "grains are those of the step");
  center.take(1);
  EXPECT_TRUE(center.say(1, words::commit(0, {{0, 1}, {2, 3}})));
  const auto heard = center.take(1);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].head.floats().offset(), 5U);
  EXPECT_EQ(heard[0].floats, Floats(6, -4.5F));  // (2 + 4) * 3 / 2 * 0.5
  greet(2);
  center.take(2);
  EXPECT_TRUE(center.say(2, words::commit(0, {{0, 1}, {2, 3}})));  // was told the same
  EXPECT_EQ(center.take(2).front().floats, Floats(6, -4.5F));
}

TEST(SharedSteps, AreCommittedUnderTheRuleForThatAlone) {
  SpokenCenter center({.index = 1, .count = 2});
  center.say(1, words::hello({.server = 1, .servers = 2}));
  center.load(1, tinySetup("bsp"));
  EXPECT_EQ(center.refusalOf(1, words::commit(0, {{0, 1}})), "nobody commits under this rule");
}

}  // namespace
}  // namespace cohort
