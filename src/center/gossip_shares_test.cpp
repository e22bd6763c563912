// Shares against sequences that were worked out by hand, and their sum whatever happens.
#include "center/gossip_shares.h"

#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

constexpr GossipShares::Share kAll = GossipShares::kAll;

GossipShares::Share sumOf(const GossipShares& shares) {
  const GossipShares::Sums sums = shares.sums();
  return sums.workers + sums.mail + sums.nobodys;
}

TEST(GossipShares, OfTwoWorkersFollowTheirLetters) {
  GossipShares shares(1);
  EXPECT_EQ(shares.sums().nobodys, kAll);
  shares.join(5);
  EXPECT_EQ(shares.of(5), kAll);
  shares.join(6);
  EXPECT_EQ(shares.of(5), kAll / 2);
  EXPECT_EQ(shares.of(6), kAll / 2);
  // 5 -> 6 twice: a quarter of all, then an eighth.
  const GossipShares::Sent first = shares.send(5, 1);
  EXPECT_EQ(first.to, 6u);
  EXPECT_EQ(first.ofAll, 0.5);
  EXPECT_EQ(first.ofMail, 1);
  const GossipShares::Sent second = shares.send(5, 2);
  EXPECT_EQ(second.ofAll, 0.25);
  EXPECT_EQ(second.ofMail, 0.125 / 0.375);
  EXPECT_EQ(shares.of(5), kAll / 8);
  EXPECT_EQ(shares.sums().mail, kAll / 8 * 3);
  // 6 has a half, and three eighths come.
  EXPECT_EQ(shares.take(6), 0.375 / 0.875);
  EXPECT_EQ(shares.of(6), kAll / 8 * 7);
  EXPECT_EQ(shares.take(6), 0) << "there is nothing more";
  EXPECT_EQ(shares.send(6, 1).ofAll, 0.875);
  EXPECT_EQ(shares.take(5), 0.4375 / 0.5625);
  EXPECT_EQ(sumOf(shares), kAll);
}

TEST(GossipShares, WhoIsAloneKeepsAll) {
  GossipShares shares(1);
  shares.join(5);
  const GossipShares::Sent sent = shares.send(5, 1);
  EXPECT_FALSE(sent.to);
  EXPECT_EQ(sent.ofAll, 1);
  EXPECT_EQ(shares.of(5), kAll);
}

TEST(GossipShares, WhoComesIsGivenWhatOthersLeftOrApartOfAll) {
  GossipShares shares(1);
  for (const OwnerId worker : {1, 2, 3}) shares.join(worker);
  for (const OwnerId worker : {1, 2, 3}) EXPECT_NEAR(static_cast<double>(shares.of(worker)), kAll / 3.0, 1e4);
  // 2 leaves with a letter in its mail.
  std::int64_t number = 1;
  while (shares.send(1, number).to != 2u && number < 100) ++number;
  ASSERT_LT(number, 100);
  const GossipShares::Share first = shares.of(1);
  const GossipShares::Share third = shares.of(3) + shares.sums().mail;
  shares.leave(2);
  const GossipShares::Share left = shares.sums().nobodys;
  EXPECT_GT(left, kAll / 3) << "its mail is left too";
  EXPECT_EQ(shares.of(1), first) << "those who stay keep theirs";
  shares.join(4);
  EXPECT_EQ(shares.of(4), left);
  EXPECT_EQ(shares.sums().nobodys, 0u);
  EXPECT_LE(shares.of(3), third);
  // All gave a part before, and do so again: nobody's is nothing now.
  shares.join(5);
  EXPECT_EQ(shares.of(4), left - left / 4);
  EXPECT_EQ(sumOf(shares), kAll);
}

TEST(GossipShares, AddUpToAllWhateverHappens) {
  std::mt19937 random(3);
  GossipShares shares(9);
  std::set<OwnerId> there;
  OwnerId next = 1;
  const auto any = [&] { return *std::next(there.begin(), static_cast<long>(random() % there.size())); };
  for (int i = 0; i < 20000; ++i) {
    const unsigned what = random() % 20;
    if (there.empty() || (what == 0 && there.size() < 12)) {
      there.insert(next);
      shares.join(next++);
    } else if (what == 1) {
      const OwnerId gone = any();
      there.erase(gone);
      shares.leave(gone);
    } else if (what < 12) {
      const OwnerId from = any();
      EXPECT_NE(shares.send(from, i).to, from);
    } else {
      const double part = shares.take(any());
      EXPECT_GE(part, 0);
      EXPECT_LE(part, 1);
    }
    ASSERT_EQ(sumOf(shares), kAll) << i;
  }
}

TEST(GossipShares, LettersGoToAllOthersAlike) {
  std::map<OwnerId, int> counts;
  for (std::int64_t number = 1; number <= 3000; ++number) {
    GossipShares shares(7);
    for (const OwnerId worker : {10, 20, 30, 40}) shares.join(worker);
    ++counts[*shares.send(20, number).to];
  }
  ASSERT_EQ(counts.size(), 3u);
  for (const auto& [worker, count] : counts) EXPECT_NEAR(count, 1000, 120) << worker;
}

TEST(GossipShares, ReceiversFollowFromSeedSenderAndNumber) {
  const auto receivers = [](std::uint64_t seed, OwnerId from) {
    GossipShares shares(seed);
    for (const OwnerId worker : {1, 2, 3, 4, 5}) shares.join(worker);
    std::vector<OwnerId> all;
    for (std::int64_t number = 1; number <= 40; ++number) all.push_back(*shares.send(from, number).to);
    return all;
  };
  EXPECT_EQ(receivers(1, 2), receivers(1, 2));
  EXPECT_NE(receivers(1, 2), receivers(2, 2));
  EXPECT_NE(receivers(1, 2), receivers(1, 3));
}

}  // namespace
}  // namespace cohort
