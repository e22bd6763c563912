#include "base/philox.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

// The known answers for philox4x32-10 that the algorithm's authors publish.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxKey, DependsOnEveryBitOfSeedAndPurpose) {
  const PhiloxKey base = philoxKey(7, 11);
  for (int bit = 0; bit < 64; ++bit) {
    const PhiloxKey otherSeed = philoxKey(7 ^ std::uint64_t{1} << bit, 11);
    const PhiloxKey otherPurpose = philoxKey(7, 11 ^ std::uint64_t{1} << bit);
    EXPECT_FALSE(otherSeed.low == base.low && otherSeed.high == base.high) << bit;
    EXPECT_FALSE(otherPurpose.low == base.low && otherPurpose.high == base.high) << bit;
  }
}

TEST(UniformFloat, CoversZeroToJustBelowOne) {
  EXPECT_EQ(uniformFloat(0), 0.0f);
  EXPECT_EQ(uniformFloat(0x80000000), 0.5f);
  EXPECT_EQ(uniformFloat(0xffffffff), 1.0f - 0x1p-24f);
}

}  // namespace
}  // namespace cohort
