// Letters of two floats, worked out by hand.
#include "center/gossip_post.h"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using testing::Each;
using testing::FloatEq;

class Posted : public testing::Test {
 protected:
  // A letter of such floats; 0: none.
  void visit(OwnerId worker, std::int64_t number, float value = 0) {
    FloatBuffer letter;
    if (value != 0) {
      letter = pool->take();
      std::ranges::fill(letter.span(), value);
    }
    post.visit({worker, number}, ++version, std::move(letter), center);
  }
  std::vector<float> foundBy(OwnerId worker, std::int64_t number) {
    const GossipPost::Found* found = post.foundBy({worker, number});
    if (found == nullptr || found->part == 0) return {};
    return {found->letters->span().begin(), found->letters->span().end()};
  }

  std::shared_ptr<BufferPool> pool = std::make_shared<BufferPool>(2);
  GossipPost post{1, pool};
  std::vector<float> center = std::vector<float>(2, 0);
  Step version = 0;
};

TEST_F(Posted, LettersComeToTheOtherAndMoveTheCenterByTheSendersShare) {
  visit(5, 1);
  visit(6, 1);
  EXPECT_THAT(center, Each(0));
  visit(5, 2, 8);
  EXPECT_THAT(center, Each(4)) << "half of all is the sender's";
  EXPECT_TRUE(foundBy(5, 2).empty()) << "it is not for itself";
  visit(6, 2);
  EXPECT_THAT(foundBy(6, 2), Each(8));
  EXPECT_EQ(post.foundBy({6, 2})->part, 0.25 / 0.75);
  EXPECT_EQ(post.foundBy({6, 2})->version, 4);
  EXPECT_EQ(post.foundBy({6, 1}), nullptr) << "the last visit alone is remembered";
  visit(6, 3, 16);
  EXPECT_THAT(center, Each(4 + 0.75F * 12));
  EXPECT_TRUE(foundBy(6, 3).empty()) << "mail is taken once";
}

TEST_F(Posted, SeveralLettersAreMixedByTheirShares) {
  visit(5, 1);
  visit(6, 1);
  visit(5, 2, 8);  // a quarter
  visit(5, 3, 2);  // an eighth
  visit(6, 2);
  EXPECT_THAT(foundBy(6, 2), Each(FloatEq(6)));
  EXPECT_EQ(post.foundBy({6, 2})->part, 0.375 / 0.875);
}

TEST_F(Posted, WhoIsAloneMovesTheCenterToItself) {
  visit(5, 1, 8);
  EXPECT_THAT(center, Each(8));
  visit(5, 2);
  EXPECT_TRUE(foundBy(5, 2).empty());
}

TEST_F(Posted, WhoIsGoneHasNoMailAndItsShareIsTheNextOnes) {
  visit(5, 1);
  visit(6, 1);
  visit(5, 2, 8);
  EXPECT_TRUE(post.leave(6));
  EXPECT_FALSE(post.leave(6));
  EXPECT_EQ(post.foundBy({6, 1}), nullptr);
  visit(7, 1);
  EXPECT_EQ(post.shares().of(7), GossipShares::kAll / 4 * 3);
  EXPECT_TRUE(foundBy(7, 1).empty());
}

}  // namespace
}  // namespace cohort
