#include "engine/memory_plan.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace cohort {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

bool isUsed(const Lifetime& buffer) {
  return buffer.last >= buffer.first && buffer.bytes > 0;
}

bool aliveTogether(const Lifetime& a, const Lifetime& b) {
  return isUsed(a) && isUsed(b) && a.first <= b.last && b.first <= a.last;
}

void expectValid(const std::vector<Lifetime>& buffers, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), buffers.size());
  std::size_t sum = 0;
  int end = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!isUsed(buffers[i])) continue;
    sum += aligned(buffers[i].bytes);
    end = std::max(end, buffers[i].last + 1);
    ASSERT_EQ(plan.offsets[i] % kBufferAlignment, 0u);
    ASSERT_LE(plan.offsets[i] + buffers[i].bytes, plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (!aliveTogether(buffers[i], buffers[j])) continue;
      ASSERT_TRUE(plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                  plan.offsets[j] + buffers[j].bytes <= plan.offsets[i])
          << "buffers " << i << " and " << j << " overlap while both are alive";
    }
  }
  std::size_t needed = 0;  // by the fullest moment
  for (int time = 0; time < end; ++time) {
    std::size_t live = 0;
    for (const Lifetime& buffer : buffers) {
      if (isUsed(buffer) && buffer.first <= time && time <= buffer.last) live += aligned(buffer.bytes);
    }
    needed = std::max(needed, live);
  }
  EXPECT_GE(plan.bytes, needed);
  EXPECT_LE(plan.bytes, sum);
}

TEST(MemoryPlan, KeepsBuffersApartThatLiveTogether) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> buffers(random() % 60);
    const int tasks = 1 + static_cast<int>(random() % 40);
    for (Lifetime& buffer : buffers) {
      buffer.bytes = random() % 8 == 0 ? 0 : 1 + random() % (random() % 2 == 0 ? 100 : 5000);
      buffer.first = static_cast<int>(random()) % tasks;
      buffer.first = std::abs(buffer.first);
      buffer.last = buffer.first - 1 + static_cast<int>(random() % 12);
    }
    const MemoryPlan plan = planMemory(buffers);
    expectValid(buffers, plan);
    const MemoryPlan again = planMemory(buffers);
    EXPECT_EQ(plan.offsets, again.offsets);
  }
}

TEST(MemoryPlan, PutsBuffersThatNeverMeetInOnePlace) {
  const std::vector<Lifetime> buffers{{100, 0, 1}, {100, 2, 3}, {90, 4, 4}};
  EXPECT_EQ(planMemory(buffers).bytes, aligned(100));
}

TEST(MemoryPlan, KeepsBuffersApartThatMeetAtOneTask) {
  const std::vector<Lifetime> buffers{{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(planMemory(buffers).bytes, 128u);
}

TEST(MemoryPlan, FillsGaps) {
  // The long-lived ones are placed around a hole that the short-lived one fits exactly.
  const std::vector<Lifetime> buffers{{256, 0, 9}, {128, 0, 3}, {128, 4, 9}};
  EXPECT_EQ(planMemory(buffers).bytes, 384u);
}

TEST(MemoryPlan, NeedsNothingForNothing) {
  EXPECT_EQ(planMemory({}).bytes, 0u);
  const std::vector<Lifetime> unused{{.bytes = 100}, {.bytes = 0, .first = 0, .last = 5}};
  EXPECT_EQ(planMemory(unused).bytes, 0u);
}

}  // namespace
}  // namespace cohort
