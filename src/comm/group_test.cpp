#include "comm/group.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/test_error.h"
#include "comm/thread_transport.h"

namespace cohort {
namespace {

TEST(Group, OfAllHasTheWorkersNumbers) {
  ThreadHub hub(3);
  Communicator workers(hub.transport(1), 60);
  const Group all = workers;
  EXPECT_EQ(all.size(), 3);
  EXPECT_EQ(all.rank(), 1);
  for (int member = 0; member < 3; ++member) EXPECT_EQ(all.workerOf(member), member);
  EXPECT_EQ(&all.workers(), &workers);
}

TEST(Group, OfSomeHasNumbersOfItsOwn) {
  ThreadHub hub(6);
  Communicator workers(hub.transport(4), 60);
  const Group group(workers, {1, 4, 5});
  EXPECT_EQ(group.size(), 3);
  EXPECT_EQ(group.rank(), 1);
  EXPECT_EQ(group.workerOf(0), 1);
  EXPECT_EQ(group.workerOf(2), 5);
  const Group alone(workers, {4});
  EXPECT_EQ(alone.size(), 1);
  EXPECT_EQ(alone.rank(), 0);
}

TEST(Group, HasItsWorkerInIt) {
  Communicator alone;
  EXPECT_DEATH(Group(alone, {1, 2}), "a worker is in its group");
}

// Workers 0, 2, 4 and 1, 3, 5: members of both groups send under the same tag, and nobody hears the other group.
TEST(Group, MembersTalkAmongThemselves) {
  constexpr int kWorkers = 6;
  constexpr int kRounds = 20;
  ThreadHub hub(kWorkers, 5);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kWorkers; ++rank) {
    threads.emplace_back([&hub, rank] {
      Communicator workers(hub.transport(rank), 60);
      const Group group(workers, {rank % 2, rank % 2 + 2, rank % 2 + 4});
      ASSERT_EQ(group.rank(), rank / 2);
      const int after = (group.rank() + 1) % 3;
      const int before = (group.rank() + 2) % 3;
      int sent = 0;
      int heard = 0;
      std::atomic<int> underWay = 0;
      const auto done = [&] { --underWay; };
      Communicator::Transfer& send = group.addSend(after, 7, std::as_bytes(std::span(&sent, 1)), done);
      Communicator::Transfer& receive =
          group.addReceive(before, 7, std::as_writable_bytes(std::span(&heard, 1)), done);
      for (int round = 0; round < kRounds; ++round) {
        sent = round * 100 + rank;
        underWay = 2;
        group.start(receive);
        group.start(send);
        group.waitUntil([&] { return underWay == 0; }, [] { return "its neighbours"; });
        ASSERT_EQ(heard, round * 100 + group.workerOf(before));
      }
    });
  }
}

TEST(Group, AWaitNamesTheWorkerAmongAll) {
  ThreadHub hub(4);
  Communicator workers(hub.transport(3), 0.05);
  const Group group(workers, {1, 3});
  EXPECT_EQ(errorOf<PeerError>([&] { group.waitUntil([] { return false; }, [] { return "its group"; }); }),
            "worker 3 waited 0.05 s for its group");
}

}  // namespace
}  // namespace cohort
