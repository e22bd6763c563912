// What a server does with visits of workers that gossip.
#include <gtest/gtest.h>

#include "base/test_directory.h"
#include "center/test_center.h"

namespace cohort {
namespace {

struct VisitWords {
  OwnerId worker = 5;
  std::int64_t number = 1;
  Step step = 0;
};

wire::Envelope visitOf(const VisitWords& visit) {
  wire::Envelope word = words::push({.step = visit.step});
  wire::Exchange& own = *word.mutable_push()->mutable_exchange();
  own.set_weights(visit.worker);
  own.set_number(visit.number);
  own.add_steps(visit.step);
  *word.mutable_push()->add_seen() = toWire(ServerVersion{9, 0});
  if (visit.number == 1) *own.add_begun_with() = toWire(ServerVersion{9, 0});
  return word;
}

class Visits : public testing::Test {
 protected:
  Visits() : writer(folder.path(), [](const std::string& warning) { ADD_FAILURE() << warning; }) {
    center.open(1, tinySetup("gossip"));
    center.join(2);
  }
  // With a letter of such floats; 0: none.
  bool visit(LinkId id, const VisitWords& visit, float letter = 0) {
    return letter == 0 ? center.say(id, visitOf(visit))
                       : center.say(id, visitOf(visit), std::vector<float>(kTinySize, letter));
  }
  // What is in its mail.
  static RecordingLink::Heard mailOf(SpokenCenter& from, LinkId id) {
    from.take(id);
    EXPECT_TRUE(from.say(id, words::pull(0, 3, {std::string(kMail)})));
    const std::vector<RecordingLink::Heard> heard = from.take(id);
    EXPECT_EQ(heard.size(), 1u);
    return heard.empty() ? RecordingLink::Heard{} : heard.front();
  }
  RecordingLink::Heard mailOf(LinkId id) { return mailOf(center, id); }
  Journal journal() { return readJournal(folder / journalName(tinySetup().opening, 0, 9)); }
  wire::Status::Shares shares() {
    wire::Envelope ask;
    ask.mutable_ask_status();
    center.say(1, ask);
    return center.last(1, SpokenCenter::What::kStatus).status().shares();
  }

  TestDirectory folder;
  JournalWriter writer;
  SpokenCenter center{{.life = 9}, &writer};
};

TEST_F(Visits, CarryLettersFromOneWorkerToAnother) {
  EXPECT_TRUE(visit(1, {}));
  EXPECT_TRUE(visit(2, {.worker = 6, .step = 1}));
  EXPECT_EQ(mailOf(2).head.floats().part(), 0);
  EXPECT_TRUE(visit(1, {.number = 2, .step = 2}, 8));
  EXPECT_TRUE(visit(2, {.worker = 6, .number = 2, .step = 3}));
  const RecordingLink::Heard mail = mailOf(2);
  EXPECT_EQ(mail.floats, std::vector<float>(kTinySize, 8));
  EXPECT_EQ(mail.head.floats().part(), 0.25 / 0.75);
  EXPECT_EQ(mail.head.floats().version(), 4);
  EXPECT_EQ(center.center.snapshot().arenas.front().span()[0], 4) << "the center's weights follow";
}

// Whoever has not heard the answer asks again, and is told the same.
TEST_F(Visits, ThatComeTwiceCountOnceAndFindTheSame) {
  EXPECT_TRUE(visit(1, {}));
  EXPECT_TRUE(visit(2, {.worker = 6, .step = 1}));
  EXPECT_TRUE(visit(1, {.number = 2, .step = 2}, 8));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(visit(2, {.worker = 6, .number = 2, .step = 3}, 2));
    EXPECT_EQ(mailOf(2).floats, std::vector<float>(kTinySize, 8));
    EXPECT_EQ(mailOf(2).head.floats().version(), 4);
  }
  EXPECT_TRUE(visit(1, {.number = 3, .step = 4}));
  EXPECT_EQ(mailOf(1).head.floats().part(), 0.25 / 0.5) << "its letter came once";
}

TEST_F(Visits, OfOneWhoIsGoneAreWrittenDownAndItsShareIsKept) {
  EXPECT_TRUE(visit(1, {}));
  EXPECT_TRUE(visit(2, {.worker = 6, .step = 1}));
  EXPECT_TRUE(visit(1, {.number = 2, .step = 2}, 8));
  EXPECT_EQ(shares().workers(), GossipShares::kAll / 4 * 3);
  EXPECT_EQ(shares().mail(), GossipShares::kAll / 4);
  EXPECT_EQ(shares().nobodys(), 0u);
  center.close(2);
  EXPECT_EQ(shares().workers(), GossipShares::kAll / 4);
  EXPECT_EQ(shares().mail(), 0u);
  EXPECT_EQ(shares().nobodys(), GossipShares::kAll / 4 * 3);
  center.join(3);
  EXPECT_TRUE(visit(3, {.worker = 7, .step = 3}));
  EXPECT_EQ(shares().workers(), GossipShares::kAll);
  writer.flush();
  const Journal written = journal();
  ASSERT_EQ(written.size(), 5u);
  EXPECT_TRUE(written[3].isLeaving);
  EXPECT_EQ(written[3].member, written[1].member);
  EXPECT_FALSE(written[4].isLeaving);
  EXPECT_EQ(written[4].exchange, 1);
  EXPECT_EQ(written[4].step, 3);
  EXPECT_EQ(written.end(), 5);
}

// Of mail nothing is kept: shares begin anew, as equal ones.
TEST_F(Visits, AfterADeathOfTheServerBeginAnew) {
  EXPECT_TRUE(visit(1, {}));
  EXPECT_TRUE(visit(2, {.worker = 6, .step = 1}));
  EXPECT_TRUE(visit(1, {.number = 2, .step = 2}, 8));
  EXPECT_TRUE(visit(2, {.worker = 6, .number = 2, .step = 3}));
  SpokenCenter again({.life = 10}, &writer);
  again.center.restore(center.center.snapshot());
  again.join(3);
  again.join(4);
  EXPECT_TRUE(again.say(4, visitOf({.worker = 6, .number = 2, .step = 3})));
  EXPECT_EQ(mailOf(again, 4).head.floats().part(), 0) << "what it found it did not hear, and it is lost";
  EXPECT_EQ(again.center.snapshot().head.version(), 4) << "and its visit is none";
  EXPECT_TRUE(again.say(3, visitOf({.number = 3, .step = 4})));
  EXPECT_TRUE(again.say(4, visitOf({.worker = 6, .number = 3, .step = 5})));
  EXPECT_TRUE(again.say(3, visitOf({.number = 4, .step = 6}), std::vector<float>(kTinySize, 2)));
  EXPECT_TRUE(again.say(4, visitOf({.worker = 6, .number = 4, .step = 7})));
  EXPECT_EQ(mailOf(again, 4).head.floats().part(), 0.25 / 0.75);
}

TEST_F(Visits, MailIsAskedForAloneAndByWorkersThatGossip) {
  EXPECT_EQ(center.refusalOf(2, words::pull(0, 1, {std::string(kMail)})), "there is no mail for it");
  EXPECT_TRUE(visit(1, {}));
  EXPECT_EQ(center.refusalOf(1, words::pull(0, 1, {std::string(kMail), std::string(kWeights)})),
            "the run has no such slot");
  SpokenCenter other({.life = 9});
  other.open(1, tinySetup("easgd"));
  EXPECT_EQ(other.refusalOf(1, words::pull(0, 1, {std::string(kMail)})), "there is no mail for it");
  other.join(2);
  EXPECT_EQ(other.refusalOf(2, visitOf({})), "floats have four bytes each") << "only a visit may bring none";
}

}  // namespace
}  // namespace cohort
