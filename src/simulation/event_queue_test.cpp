#include "simulation/event_queue.h"

#include <string>

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(EventQueue, GoesByTimeAndThenByTheOrderInWhichItWasSaid) {
  EventQueue queue;
  std::string story;
  for (const char name : {'c', 'd', 'e', 'f'}) queue.at(20, [&story, name] { story += name; });
  queue.at(30, [&] { story += 'g'; });
  queue.at(10, [&] {
    story += 'a';
    queue.after(0, [&] { story += 'b'; });
    queue.after(10, [&] { story += "(later)"; });
  });
  while (queue.runNext()) {
  }
  EXPECT_EQ(story, "abcdef(later)g");
  EXPECT_EQ(queue.now(), 30);
  EXPECT_EQ(queue.happened(), 8u);
}

TEST(EventQueueDeathTest, NothingHappensBeforeNow) {
  EventQueue queue;
  queue.at(10, [] {});
  queue.runNext();
  EXPECT_DEATH(queue.at(9, [] {}), "nothing happens before now");
}

}  // namespace
}  // namespace cohort
