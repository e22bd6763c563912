// What a server does with exchanges of workers that have weights of their own.
#include <numeric>

#include <gtest/gtest.h>

#include "base/test_directory.h"
#include "center/test_center.h"

namespace cohort {
namespace {

struct Told {
  std::uint64_t weights = 5;
  std::int64_t number = 1;
  std::vector<Step> steps{0};
};

wire::Envelope exchange(const Told& told) {
  wire::Envelope word = words::push({.step = told.steps.empty() ? 0 : told.steps.back()});
  wire::Push& push = *word.mutable_push();
  wire::Exchange& own = *push.mutable_exchange();
  own.set_weights(told.weights);
  own.set_number(told.number);
  for (const Step step : told.steps) own.add_steps(step);
  *push.add_seen() = toWire(ServerVersion{9, 0});
  if (told.number == 1) *own.add_begun_with() = toWire(ServerVersion{9, 0});
  return word;
}

class Exchanges : public testing::Test {
 protected:
  Exchanges() : writer(folder.path(), [](const std::string& warning) { ADD_FAILURE() << warning; }) {
    center.open(1, tinySetup("easgd"));
    center.join(2);
  }
  bool say(LinkId id, const Told& told) {
    return center.say(id, exchange(told), std::vector<float>(kTinySize, 1));
  }
  Step version() { return center.center.snapshot().head.version(); }
  Journal journal() { return readJournal(folder / journalName(tinySetup().opening, 0, 9)); }

  TestDirectory folder;
  JournalWriter writer;
  SpokenCenter center{{.life = 9}, &writer};
};

TEST_F(Exchanges, AreAddedToTheWeightsAndWrittenDown) {
  EXPECT_TRUE(say(1, {.steps = {0, 2, 3}}));
  EXPECT_TRUE(say(2, {.weights = 6, .steps = {1}}));
  EXPECT_TRUE(say(1, {.number = 2, .steps = {4, 5}}));
  EXPECT_EQ(version(), 3);
  const Journal written = journal();
  ASSERT_EQ(written.size(), 3u);
  EXPECT_EQ(written[0].exchange, 1);
  EXPECT_EQ(std::vector(written[0].steps.begin(), written[0].steps.end()), (std::vector<Step>{0, 2, 3}));
  ASSERT_EQ(written[0].begunWith.size(), 1u);
  EXPECT_EQ(written[0].begunWith[0], (ServerVersion{9, 0}));
  EXPECT_EQ(written[2].exchange, 2);
  EXPECT_TRUE(written[2].begunWith.empty());
  ASSERT_EQ(written.members().size(), 2u);
  EXPECT_EQ(written.members()[0].token, 5u);
  EXPECT_EQ(written.members()[1].token, 6u);
}

// A worker that died after it had exchanged, but before it said that its step was done, does not take away what another has made of that.
TEST_F(Exchanges, OfTwoWorkersAfterTheSameStepBothCount) {
  EXPECT_TRUE(say(1, {.steps = {0}}));
  EXPECT_TRUE(say(2, {.weights = 6, .steps = {0}}));
  EXPECT_EQ(version(), 2);
}

TEST_F(Exchanges, ThatComeTwiceCountOnceAlsoAfterADeath) {
  EXPECT_TRUE(say(1, {.steps = {0}}));
  EXPECT_TRUE(say(1, {.steps = {0}}));
  EXPECT_EQ(version(), 1);
  EXPECT_EQ(journal().size(), 1u);
  SpokenCenter again({.life = 10}, &writer);
  again.center.restore(center.center.snapshot());
  again.join(3);
  EXPECT_TRUE(again.say(3, exchange({.steps = {0}}), std::vector<float>(kTinySize, 1)));
  EXPECT_EQ(again.center.snapshot().head.version(), 1);
  EXPECT_TRUE(again.say(3, exchange({.number = 2, .steps = {1}}), std::vector<float>(kTinySize, 1)));
  EXPECT_EQ(again.center.snapshot().head.version(), 2);
}

TEST_F(Exchanges, ThatCannotBeComputedAgainAreRefused) {
  const std::vector<float> floats(kTinySize);
  const auto refusal = [&](const Told& told) {
    SpokenCenter fresh({.life = 9});
    fresh.open(1, tinySetup("easgd"));
    return fresh.refusalOf(1, exchange(told), std::as_bytes(std::span(floats)));
  };
  const std::string sentence = "an exchange says which steps were made since the last";
  EXPECT_EQ(refusal({.number = 0}), sentence);
  EXPECT_EQ(refusal({.steps = {}}), sentence);
  EXPECT_EQ(refusal({.steps = {-1, 0}}), sentence);
  EXPECT_EQ(refusal({.steps = {100, 0}}), sentence);
  EXPECT_EQ(refusal({.weights = 0}), "who begins anew enters again");
  EXPECT_TRUE(say(1, {.steps = {0}}));
  EXPECT_EQ(center.refusalOf(1, exchange({.weights = 7, .steps = {1}}), std::as_bytes(std::span(floats))),
            "who begins anew enters again");
}

}  // namespace
}  // namespace cohort
