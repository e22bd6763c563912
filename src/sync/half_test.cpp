#include "sync/half.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace cohort {
namespace {

std::vector<float> throughTheWire(const std::vector<float>& values) {
  std::vector<std::byte> message(halfBytes(values.size()));
  std::vector<float> back(values.size());
  encodeHalf(values, message);
  decodeHalf(message, back);
  return back;
}

TEST(Half, ErrorsAreSmallBesideTheLargestValue) {
  std::mt19937 random(3);
  for (const int magnitude : {-120, -40, -10, 0, 10, 40, 120}) {
    for (const std::size_t count : {1U, 7U, 8U, 9U, 1000U}) {
      std::vector<float> values(count);
      float largest = 0;
      for (float& value : values) {
        value = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                           magnitude - static_cast<int>(random() % 20));
        largest = std::max(largest, std::fabs(value));
      }
      const std::vector<float> back = throughTheWire(values);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_LE(std::fabs(back[i] - values[i]), largest * 0x1p-11F) << values[i];
        // Normal numbers keep 11 bits.
        if (std::fabs(values[i]) > largest * 0x1p-28F) {
          ASSERT_LE(std::fabs(back[i] - values[i]), std::fabs(values[i]) * 0x1p-11F) << values[i];
        }
      }
    }
  }
}

TEST(Half, WhatSixteenBitsHoldComesBackAsItWas) {
  const std::vector<float> values = {0, -0.0F, 1, -1, 0.5F, 1.5F, 2047, -3, 0x1p-8F, 1024, 7};
  EXPECT_EQ(throughTheWire(values), values);
  EXPECT_EQ(throughTheWire({0, 0, 0}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(throughTheWire({}), std::vector<float>{});
}

// Eight at a time and one at a time give the same.
TEST(Half, DoesNotDependOnTheNeighbours) {
  std::mt19937 random(4);
  std::vector<float> values(64);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(random()) / 4e9F - 0.5F, -static_cast<int>(random() % 30));
  values[0] = 1;  // the same exponent for all
  const std::vector<float> all = throughTheWire(values);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const std::vector<float> two = throughTheWire({1, values[i]});
    EXPECT_EQ(two[1], all[i]) << values[i];
  }
}

TEST(Half, WhatIsNoNumberStaysSo) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> back = throughTheWire({1, kInfinity, -kInfinity, std::nanf("")});
  EXPECT_EQ(back[0], 1);
  EXPECT_EQ(back[1], kInfinity);
  EXPECT_EQ(back[2], -kInfinity);
  EXPECT_TRUE(std::isnan(back[3]));
}

}  // namespace
}  // namespace cohort
