#include "launch/worker_cores.h"

#include <thread>

#include <gtest/gtest.h>

#include "comm/thread_transport.h"

namespace cohort {
namespace {

using Cores = std::vector<int>;

TEST(WorkerCores, OfOneHostAreDivided) {
  const WorkerCores free{.host = "a", .online = 5, .allowed = {0, 1, 2, 4, 7}};
  const std::vector<WorkerCores> all = {free, {.host = "b", .online = 1, .allowed = {3}}, free};
  EXPECT_EQ(coresOfWorker(all, 0), (Cores{0, 1}));
  EXPECT_EQ(coresOfWorker(all, 1), (Cores{3}));
  EXPECT_EQ(coresOfWorker(all, 2), (Cores{2, 4, 7}));
  EXPECT_EQ(bindingNote(all, 0, 64), "") << "nobody bound them: more lanes than cores are the user's wish";
}

TEST(WorkerCores, AreFewerThanWorkers) {
  const std::vector<WorkerCores> all(3, {.host = "a", .online = 2, .allowed = {0, 1}});
  EXPECT_EQ(coresOfWorker(all, 0), Cores{});
  EXPECT_EQ(coresOfWorker(all, 1), (Cores{0}));
  EXPECT_EQ(coresOfWorker(all, 2), (Cores{1}));
}

TEST(WorkerCores, ThatMpirunChoseAreKeptAndSaid) {
  const std::vector<WorkerCores> all = {{.host = "a", .online = 4, .allowed = {0}, .isBound = true},
                                        {.host = "a", .online = 4, .allowed = {1}, .isBound = true}};
  EXPECT_EQ(coresOfWorker(all, 0), (Cores{0}));
  EXPECT_EQ(coresOfWorker(all, 1), (Cores{1}));
  EXPECT_EQ(bindingNote(all, 1, 0),
            "mpirun binds the workers of a to 2 of its 4 cores; with mpirun --bind-to none they use all");
  EXPECT_EQ(bindingNote(all, 1, 2),
            "mpirun binds worker 1 to 1 core, too few for its 2 lanes; give mpirun --bind-to none");
  EXPECT_EQ(bindingNote(all, 1, 1), "") << "as asked for";
}

TEST(WorkerCores, AreKnownToAll) {
  ThreadHub hub(3, 1);
  std::vector<std::vector<WorkerCores>> all(3);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        Communicator workers(hub.transport(rank), 60);
        all[static_cast<std::size_t>(rank)] = gatherCores(Channel(workers, 0));
      });
    }
  }
  ASSERT_EQ(all[0].size(), 3u);
  EXPECT_FALSE(all[0][0].allowed.empty());
  EXPECT_FALSE(all[0][0].host.empty());
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

}  // namespace
}  // namespace cohort
