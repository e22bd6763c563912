// A server's brain, word by word: coming, opening a run and opening it again.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "center/test_center.h"

namespace cohort {
namespace {

using What = wire::Envelope::WhatCase;
using Kinds = std::vector<What>;

TEST(CenterOpening, BeginsWithAGreeting) {
  for (const wire::Envelope& word :
       {wire::Envelope(), words::setup(tinySetup()), words::load(kWeights), words::loaded(), words::enter(),
        words::push({}), words::pull(0), words::finished({0, {0, 2}}), words::reopen(77), words::halt(),
        words::settled(), words::bye()}) {
    SpokenCenter center;
    EXPECT_EQ(center.refusalOf(1, word), "the first word is a greeting");
    EXPECT_FALSE(center.say(1, words::hello({})));  // it is gone
  }
}

TEST(CenterOpening, RefusesOtherProtocolsAndPlaces) {
  SpokenCenter center({.index = 1, .count = 3});
  EXPECT_MENTIONS(center.refusalOf(1, words::hello({.server = 1, .servers = 3, .protocol = 99})),
                  "use the same version of cohort everywhere");
  EXPECT_EQ(center.refusalOf(2, words::hello({.server = 2, .servers = 3})),
            "this is server 1 of 3, not server 2 of 3; name all servers in their order");
  EXPECT_EQ(center.refusalOf(3, words::hello({.server = 1, .servers = 2})),
            "this is server 1 of 3, not server 1 of 2; name all servers in their order");
  EXPECT_EQ(center.refusalOf(4, words::hello({.server = 1, .servers = 3})), "taken");
  EXPECT_EQ(center.refusalOf(4, words::hello({.server = 1, .servers = 3})), "it has greeted before");
}

TEST(CenterOpening, LetsTheFirstWorkerOpenAndTheOthersWait) {
  SpokenCenter center;
  center.say(1, words::hello({.token = 1}));
  const auto heard = center.take(1);
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[0].head.what_case(), What::kPatience);
  EXPECT_FALSE(heard[1].head.welcome().is_open());
  EXPECT_EQ(heard[1].head.welcome().member(), 0);
  center.say(2, words::hello({.token = 2}));
  EXPECT_EQ(center.kinds(2), Kinds{What::kPatience});

  CenterSetup setup = tinySetup();
  setup.step = 5;
  EXPECT_TRUE(center.load(1, setup));
  EXPECT_EQ(center.kinds(1), Kinds{What::kOpened});
  EXPECT_EQ(center.kinds(2), Kinds{});
  EXPECT_FALSE(center.center.hasSnapshot());
  EXPECT_TRUE(center.say(1, words::loaded()));
  EXPECT_TRUE(center.center.hasSnapshot());
  const wire::Welcome welcome = center.last(2, What::kWelcome).welcome();
  EXPECT_TRUE(welcome.is_open());
  EXPECT_EQ(welcome.config(), "network: test");
  EXPECT_EQ(welcome.opening(), 77U);
  EXPECT_EQ(welcome.version(), 5);
  EXPECT_EQ(welcome.member(), 1);
}

TEST(CenterOpening, PassesToTheNextWhereTheOpenerDies) {
  SpokenCenter center;
  for (const LinkId id : {1, 2, 3}) center.say(id, words::hello({.token = id}));
  center.take(2);
  center.load(1, tinySetup());
  center.close(1);
  EXPECT_EQ(center.kinds(2), Kinds{What::kWelcome});
  EXPECT_EQ(center.kinds(3), Kinds{What::kPatience});
  EXPECT_TRUE(center.load(2, tinySetup()));
  EXPECT_TRUE(center.say(2, words::loaded()));
  EXPECT_TRUE(center.last(3, What::kWelcome).welcome().is_open());
}

TEST(CenterOpening, PassesToTheNextWhereTheOpenerMakesNoSense) {
  CenterSetup unknown = tinySetup("anarchy");
  SpokenCenter center;
  for (const LinkId id : {1, 2}) center.say(id, words::hello({.token = id}));
  EXPECT_EQ(center.refusalOf(1, words::setup(unknown)), "no center knows the rule 'anarchy'");
  EXPECT_FALSE(center.last(2, What::kWelcome).welcome().is_open());
  EXPECT_TRUE(center.load(2, tinySetup()));
  EXPECT_TRUE(center.say(2, words::loaded()));
}

TEST(CenterOpening, IsTheOpenersAlone) {
  SpokenCenter center;
  for (LinkId id = 1; id < 9; ++id) center.say(id, words::hello({.token = id}));
  EXPECT_EQ(center.refusalOf(2, words::setup(tinySetup())), "the run is set up already");
  center.say(1, words::setup(tinySetup()));
  EXPECT_EQ(center.refusalOf(3, words::setup(tinySetup())), "the run is set up already");
  EXPECT_EQ(center.refusalOf(4, words::load(kWeights), std::as_bytes(std::span("abc"))),
            "nothing is to be loaded");
  EXPECT_EQ(center.refusalOf(5, words::loaded()), "nothing was loaded");
  EXPECT_TRUE(center.load(1, tinySetup()));
  EXPECT_TRUE(center.say(1, words::loaded()));
  EXPECT_EQ(center.refusalOf(6, words::setup(tinySetup())), "the run is set up already");
  EXPECT_EQ(center.refusalOf(1, words::setup(tinySetup())), "the run is set up already");
}

TEST(CenterOpening, WantsEveryFloatOnce) {
  const auto refusal = [](std::string_view arena, std::uint64_t offset, std::size_t bytes) {
    SpokenCenter center;
    center.say(1, words::hello({}));
    center.say(1, words::setup(tinySetup()));
    center.say(1, words::load(kWeights, 3), std::vector<float>(2));
    return center.refusalOf(1, words::load(arena, offset), std::vector<std::byte>(bytes));
  };
  EXPECT_EQ(refusal(kWeights, 0, 12), "taken");
  EXPECT_EQ(refusal(kWeights, 5, 24), "taken");
  EXPECT_EQ(refusal("momentum", 3, 8), "taken");
  EXPECT_EQ(refusal(kWeights, 4, 4), "these floats came before");
  EXPECT_EQ(refusal(kWeights, 0, 44), "these floats came before");
  EXPECT_EQ(refusal(kWeights, 5, 28), "these floats are not this server's");
  EXPECT_EQ(refusal(kWeights, 12, 4), "these floats are not this server's");
  EXPECT_EQ(refusal(kWeights, ~std::uint64_t{0}, 4), "these floats are not this server's");
  EXPECT_EQ(refusal(kWeights, 0, 0), "floats have four bytes each");
  EXPECT_EQ(refusal(kWeights, 0, 6), "floats have four bytes each");
  EXPECT_EQ(refusal("moment1", 0, 4), "the run has no such slot");
}

TEST(CenterOpening, IsNotDoneBeforeAllIsLoaded) {
  SpokenCenter center;
  center.say(1, words::hello({}));
  center.take(1);
  center.say(1, words::setup(tinySetup()));
  center.say(1, words::load(kWeights), std::vector<float>(kTinySize));
  center.say(1, words::load("momentum"), std::vector<float>(kTinySize - 1));
  EXPECT_EQ(center.kinds(1), Kinds{});
  EXPECT_EQ(center.refusalOf(1, words::loaded()), "nothing was loaded");
}

TEST(CenterOpening, NeedsAFloatForEachServer) {
  SpokenCenter center({.index = 0, .count = 12});
  center.say(1, words::hello({.servers = 12}));
  EXPECT_EQ(center.refusalOf(1, words::setup(tinySetup())),
            "12 servers cannot share 11 floats; use fewer --servers");
}

TEST(CenterOpening, GivesWhoComesAgainItsPlaceAsTheOpener) {
  SpokenCenter center;
  center.say(1, words::hello({.token = 9}));
  center.say(2, words::hello({.token = 9}));
  const auto heard = center.take(2);
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[0].head.what_case(), What::kPatience);
  EXPECT_EQ(heard[1].head.welcome().member(), 1);
  EXPECT_FALSE(center.say(1, words::setup(tinySetup())));
  EXPECT_TRUE(center.load(2, tinySetup()));
  EXPECT_TRUE(center.say(2, words::loaded()));
}

TEST(CenterOpening, OfNothingIsRefused) {
  SpokenCenter center;
  center.say(1, words::hello({.token = 1}));
  center.say(2, words::hello({.token = 2}));
  center.load(1, tinySetup());
  center.close(1);  // what it loaded is gone with it
  EXPECT_EQ(center.refusalOf(2, words::loaded()), "nothing was loaded");

  SpokenCenter again;
  again.open(1, tinySetup());
  again.say(1, words::reopen(77));
  EXPECT_EQ(again.refusalOf(1, words::loaded()), "nothing was loaded");
}

// ---- servers that do not lead

struct SecondServer : testing::Test {
  SecondServer() { greet(1); }
  void greet(LinkId id) { center.say(id, words::hello({.token = id, .server = 1, .servers = 2})); }

  SpokenCenter center{{.index = 1, .count = 2}};  // floats 5 to 10
};

TEST_F(SecondServer, WelcomesEverybodyAndIsOpenWhenLoaded) {
  EXPECT_EQ(center.kinds(1), Kinds{What::kWelcome});
  EXPECT_TRUE(center.load(1, tinySetup()));
  EXPECT_EQ(center.kinds(1), Kinds{What::kOpened});
  greet(2);
  EXPECT_TRUE(center.last(2, What::kWelcome).welcome().is_open());
  EXPECT_TRUE(center.say(2, words::push({.offset = 5}), std::vector<float>(6, 1)));
  EXPECT_EQ(center.kinds(2), Kinds{What::kReceived});
}

TEST_F(SecondServer, LeavesLeadingToTheFirst) {
  center.load(1, tinySetup());
  for (LinkId id = 2; id < 6; ++id) greet(id);
  EXPECT_EQ(center.refusalOf(2, words::enter()), "a worker enters once, at the first server");
  EXPECT_EQ(center.refusalOf(3, words::reopen(77)), "only the first server opens a run again");
  EXPECT_EQ(center.refusalOf(4, words::loaded()), "nothing was loaded");
  center.take(1);
  EXPECT_TRUE(center.say(1, words::finished({0, {0, 2}})));
  EXPECT_TRUE(center.say(1, words::halt()));
  EXPECT_TRUE(center.say(1, words::bye()));
  EXPECT_EQ(center.kinds(1), Kinds{});
  EXPECT_FALSE(center.center.isOver());
  EXPECT_TRUE(center.say(1, words::settled()));
  EXPECT_TRUE(center.center.isOver());
}

TEST_F(SecondServer, IsSetUpAnewForAnotherOpeningAlone) {
  center.load(1, tinySetup());
  greet(2);
  EXPECT_EQ(center.refusalOf(2, words::setup(tinySetup())), "the run is set up already");
  CenterSetup next = tinySetup();
  next.opening = 78;
  next.step = 4;
  EXPECT_TRUE(center.say(1, words::setup(next)));
  center.take(1);
  EXPECT_TRUE(center.say(1, words::pull(0)));  // not before it is loaded: told so once
  EXPECT_EQ(center.kinds(1), Kinds{What::kWelcome});
  EXPECT_TRUE(center.say(1, words::pull(0)));
  EXPECT_EQ(center.kinds(1), Kinds{});
  EXPECT_TRUE(center.load(1, next));
  greet(3);
  EXPECT_EQ(center.last(3, What::kWelcome).welcome().version(), 4);
}

TEST_F(SecondServer, IsSetUpByAnotherWhereTheOpenerDies) {
  center.say(1, words::setup(tinySetup()));
  center.say(1, words::load(kWeights, 5), std::vector<float>(2));
  greet(2);
  center.close(1);
  CenterSetup next = tinySetup();
  next.opening = 78;
  EXPECT_TRUE(center.load(2, next));
  greet(3);
  EXPECT_EQ(center.last(3, What::kWelcome).welcome().opening(), 78U);
}

// The death may be noticed here later than at the first server, which named another opener.
TEST_F(SecondServer, IsSetUpByAnotherBeforeTheOpenersDeathIsNoticed) {
  center.say(1, words::setup(tinySetup()));
  greet(2);
  CenterSetup next = tinySetup();
  next.opening = 78;
  EXPECT_TRUE(center.load(2, next));
  EXPECT_EQ(center.refusalOf(1, words::load(kWeights, 5), std::vector<std::byte>(4)),
            "nothing is to be loaded");
  EXPECT_TRUE(center.say(2, words::push({.offset = 5}), std::vector<float>(6, 1)));
}

// ---- opening again

struct Reopened : testing::Test {
  Reopened() {
    center.open(1, tinySetup());  // the chief
    center.join(2);
    center.join(3);
    for (const LinkId id : {1, 2, 3}) center.take(id);
  }
  // As the chief does it.
  void openAgain(Step step = 0) {
    CenterSetup setup = tinySetup();
    setup.opening = 78;
    setup.step = step;
    EXPECT_TRUE(center.load(1, setup));
    EXPECT_TRUE(center.say(1, words::loaded()));
  }

  SpokenCenter center;
};

TEST_F(Reopened, IsForThePresentOpeningAlone) {
  EXPECT_TRUE(center.say(2, words::reopen(76)));
  EXPECT_EQ(center.kinds(1), Kinds{});
  EXPECT_TRUE(center.center.hasMembers());
  EXPECT_TRUE(center.say(2, words::reopen(77)));
  EXPECT_FALSE(center.center.hasMembers());
  EXPECT_FALSE(center.last(1, What::kWelcome).welcome().is_open());
  EXPECT_TRUE(center.say(3, words::reopen(77)));  // it too has noticed
  EXPECT_EQ(center.kinds(1), Kinds{});
  openAgain();
  EXPECT_TRUE(center.say(3, words::reopen(77)));  // late
  EXPECT_TRUE(center.center.hasSnapshot());
}

TEST_F(Reopened, IsTheChiefsThenEverybodyEntersAgain) {
  center.say(2, words::reopen(77));
  EXPECT_EQ(center.kinds(2), Kinds{});
  EXPECT_EQ(center.kinds(3), Kinds{});
  openAgain(4);
  const wire::Welcome welcome = center.last(3, What::kWelcome).welcome();
  EXPECT_TRUE(welcome.is_open());
  EXPECT_EQ(welcome.opening(), 78U);
  EXPECT_EQ(welcome.version(), 4);
  center.take(1);
  EXPECT_TRUE(center.say(2, words::enter()));
  const wire::Assign assign = center.last(2, What::kAssign).assign();
  EXPECT_EQ(assign.work().step(), 5);  // the second of two: it is given one ahead
  EXPECT_TRUE(assign.state().is_chief());
  EXPECT_TRUE(center.say(1, words::enter()));
  EXPECT_FALSE(center.last(1, What::kAssign).assign().state().is_chief());
}

TEST_F(Reopened, IsAnothersWhereTheChiefDiesMeanwhile) {
  center.say(2, words::reopen(77));
  center.close(1);
  EXPECT_FALSE(center.last(2, What::kWelcome).welcome().is_open());
  CenterSetup setup = tinySetup();
  setup.opening = 79;
  EXPECT_TRUE(center.load(2, setup));
  EXPECT_TRUE(center.say(2, words::loaded()));
  EXPECT_EQ(center.last(3, What::kWelcome).welcome().opening(), 79U);
}

TEST_F(Reopened, IgnoresWordsOfTheEarlierOpening) {
  center.say(3, words::push({.step = 4}), std::vector<float>(3));  // on its way
  center.say(2, words::reopen(77));
  for (const auto& word : {words::push({}), words::pull(0), words::finished({0, {0, 2}}), words::enter(),
                           words::halt(), words::settled(), words::bye()}) {
    EXPECT_TRUE(center.say(3, word)) << word.ShortDebugString();
  }
  EXPECT_EQ(center.kinds(3), Kinds{});
  openAgain();
  center.take(3);
  // Not yet entered: nothing that it finished is of this opening.
  EXPECT_TRUE(center.say(3, words::finished({0, {0, 2}})));
  EXPECT_TRUE(center.say(3, words::halt()));
  EXPECT_TRUE(center.say(3, words::pull(0)));
  const auto heard = center.take(3);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].floats, std::vector<float>(kTinySize));
  EXPECT_TRUE(center.say(3, words::enter()));
  EXPECT_EQ(center.last(3, What::kAssign).assign().state().done(), 0);
}

TEST_F(Reopened, IsStillHalted) {
  center.center.halt(true);
  EXPECT_EQ(center.kinds(2), Kinds{});
  center.say(2, words::reopen(77));
  openAgain(3);
  center.take(2);
  EXPECT_TRUE(center.say(2, words::enter()));
  const wire::End end = center.last(2, What::kEnd).end();
  EXPECT_TRUE(end.is_interrupted());
  EXPECT_EQ(end.state().done(), 3);
  EXPECT_TRUE(end.state().is_chief());
  EXPECT_TRUE(center.say(2, words::settled()));
  EXPECT_TRUE(center.center.isOver());
}

// The newest checkpoint counts, and not who was first.
TEST_F(Reopened, IsOneWithAnOlderStateByWhoWasThereBefore) {
  center.say(4, words::hello({.token = 4, .opening = 76, .checkpoint = 50}));
  EXPECT_FALSE(center.last(4, What::kWelcome).welcome().is_open());
  EXPECT_FALSE(center.center.hasMembers());
  CenterSetup setup = tinySetup();
  setup.opening = 78;
  setup.step = 50;
  EXPECT_TRUE(center.load(4, setup));
  EXPECT_TRUE(center.say(4, words::loaded()));
  const wire::Welcome welcome = center.last(2, What::kWelcome).welcome();
  EXPECT_TRUE(welcome.is_open());
  EXPECT_EQ(welcome.done(), 50);
}

TEST_F(Reopened, IsNoneByOthersCheckpoints) {
  center.say(4,
             words::hello({.token = 4, .opening = 0, .checkpoint = 50}));  // a stranger's are of another run
  EXPECT_TRUE(center.last(4, What::kWelcome).welcome().is_open());
  center.say(5,
             words::hello({.token = 5, .opening = 77, .checkpoint = 50}));  // it was in this one all the time
  EXPECT_TRUE(center.last(5, What::kWelcome).welcome().is_open());
  center.say(6, words::hello({.token = 6, .opening = 76, .checkpoint = 0}));
  EXPECT_TRUE(center.last(6, What::kWelcome).welcome().is_open());
}

TEST_F(Reopened, IsNotSettledByAWordOfTheTimeBefore) {
  center.say(2, words::reopen(77));
  openAgain(100);  // its target
  center.say(1, words::enter());
  wire::Envelope late = words::settled();
  late.mutable_settled()->set_opening(77);
  EXPECT_TRUE(center.say(1, late));
  EXPECT_FALSE(center.center.isOver());
  late.mutable_settled()->set_opening(78);
  EXPECT_TRUE(center.say(1, late));
  EXPECT_TRUE(center.center.isOver());
}

struct ReopenedAtTheEnd : Reopened {
  void SetUp() override {
    center.center.halt(false);
    const auto finish = [this](Step step) {
      center.push(1, {.step = step});
      center.say(1, words::finished({step, {0, 2}}));
    };
    for (const Step step : {0, 1}) finish(step);
    for (const LinkId id : {2, 3}) center.close(id);
    for (const Step step : {2, 3, 4, 5}) finish(step);
    ASSERT_EQ(center.kinds(1).back(), What::kEnd);
  }
};

// The chief's last duties need what the other server has lost.
TEST_F(ReopenedAtTheEnd, IsTheChiefsWhileItIsNotOver) {
  EXPECT_TRUE(center.say(1, words::reopen(77)));
  EXPECT_EQ(center.kinds(1), Kinds{What::kWelcome});
  EXPECT_TRUE(center.say(1, words::settled()));  // was on its way
  EXPECT_FALSE(center.center.isOver());
}

TEST_F(ReopenedAtTheEnd, IsTooLateWhenItIsOver) {
  EXPECT_TRUE(center.say(1, words::settled()));
  EXPECT_EQ(center.kinds(1), Kinds{What::kOver});
  EXPECT_TRUE(center.say(1, words::reopen(77)));
  EXPECT_EQ(center.kinds(1), Kinds{});
  EXPECT_TRUE(center.center.isOver());
}

// ---- snapshots

TEST(CenterSnapshot, IsGoneOnWith) {
  SpokenCenter before;
  before.open(1, tinySetup());
  before.join(2);
  EXPECT_TRUE(before.push(2, {.step = 2}));
  EXPECT_TRUE(before.say(2, words::finished({2, {0, 2}})));
  EXPECT_TRUE(before.push(1, {.step = 0}));  // is there, and not finished
  ASSERT_TRUE(before.center.hasSnapshot());

  SpokenCenter after;
  after.center.restore(before.center.snapshot());
  EXPECT_TRUE(after.center.hasSnapshot());
  after.say(1, words::hello({.token = 1}));
  const wire::Welcome welcome = after.last(1, What::kWelcome).welcome();
  EXPECT_TRUE(welcome.is_open());
  EXPECT_EQ(welcome.version(), 2);
  EXPECT_EQ(welcome.opening(), 77U);
  after.say(1, words::enter());
  const auto orders = after.take(1);
  ASSERT_EQ(orders.size(), 2U);  // those that were open
  EXPECT_EQ(orders[0].head.assign().work().step(), 0);
  EXPECT_EQ(orders[1].head.assign().work().step(), 1);
  EXPECT_EQ(orders[0].head.assign().state().done(), 1);
  EXPECT_TRUE(after.push(1, {.step = 0}, 1000));  // it was applied before
  after.say(1, words::pull(2, 5, {"weights", "momentum"}));
  before.say(1, words::pull(2, 5, {"weights", "momentum"}));
  const auto floats = after.take(1);
  const auto expected = before.take(1);
  ASSERT_EQ(floats.size(), 3U);
  EXPECT_EQ(floats[1].floats, expected[expected.size() - 2].floats);
  EXPECT_EQ(floats[2].floats, expected.back().floats);
}

TEST(CenterSnapshot, LacksWhatWorkersHadSeen) {
  SpokenCenter before;
  before.open(1, tinySetup());
  EXPECT_TRUE(before.push(1, {.step = 0}));
  const auto lostOf = [](SpokenCenter& center) {
    wire::Envelope ask;
    ask.mutable_ask_status();
    center.say(99, ask);
    return center.last(99, What::kStatus).status().lost();
  };
  SpokenCenter after({.life = 2});
  after.center.restore(before.center.snapshot());
  after.say(1, words::hello({.token = 1, .opening = 77, .life = 1, .version = 4}));
  EXPECT_EQ(lostOf(after), 3);
  after.say(2, words::hello({.token = 2, .opening = 77, .life = 1, .version = 6}));
  EXPECT_EQ(lostOf(after), 5);
  after.say(3, words::hello({.token = 3, .opening = 77, .life = 2, .version = 9}));  // seen since
  after.say(4, words::hello({.token = 4, .opening = 76, .life = 1, .version = 9}));  // of another run
  EXPECT_EQ(lostOf(after), 5);
  SpokenCenter later({.life = 3});
  later.center.restore(after.center.snapshot());
  EXPECT_EQ(lostOf(later), 5);
  later.say(3, words::hello({.token = 3, .opening = 77, .life = 2, .version = 3}));
  EXPECT_EQ(lostOf(later), 7);
}

TEST(CenterSnapshot, OfAnotherServerIsRefused) {
  SpokenCenter before;
  before.open(1, tinySetup());
  SpokenCenter after({.index = 1, .count = 2});
  EXPECT_EQ(errorOf<UsageError>([&] { after.center.restore(before.center.snapshot()); }),
            "the snapshot is of server 0 of 1, and this is server 1 of 2");
}

TEST(CenterSnapshot, IsKeptWhereEveryServerGoesItsOwnWay) {
  for (const auto& [rule, isKept] :
       std::map<std::string, bool>{{"async", true}, {"ssp", true}, {"bsp", false}, {"backup", false}}) {
    SpokenCenter center;
    EXPECT_FALSE(center.center.hasSnapshot());
    center.open(1, tinySetup(rule));
    EXPECT_EQ(center.center.hasSnapshot(), isKept) << rule;
  }
}

}  // namespace
}  // namespace cohort
