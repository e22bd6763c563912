#include "launch/worker_cores.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/host.h"
#include "comm/thread_transport.h"

namespace cohort {
namespace {

using Threads = std::vector<int>;

// Of a worker whose host has no hardware threads beside its cores.
Threads threadsOf(const std::vector<WorkerCores>& all, int rank) {
  return coresOfWorker(all, rank, separateCores(all[static_cast<std::size_t>(rank)].allowed)).threads;
}

TEST(WorkerCores, OfOneHostAreDivided) {
  const WorkerCores free{.host = "a", .online = 5, .allowed = {0, 1, 2, 4, 7}};
  const std::vector<WorkerCores> all = {free, {.host = "b", .online = 1, .allowed = {3}}, free};
  EXPECT_EQ(threadsOf(all, 0), (Threads{0, 1}));
  EXPECT_EQ(threadsOf(all, 1), (Threads{3}));
  EXPECT_EQ(threadsOf(all, 2), (Threads{2, 4, 7}));
  EXPECT_EQ(bindingNote(all, 0, 64), "") << "nobody bound them: more lanes than cores are the user's wish";
}

TEST(WorkerCores, AreFewerThanWorkers) {
  const std::vector<WorkerCores> all(3, {.host = "a", .online = 2, .allowed = {0, 1}});
  EXPECT_EQ(threadsOf(all, 0), Threads{});
  EXPECT_EQ(threadsOf(all, 1), (Threads{0}));
  EXPECT_EQ(threadsOf(all, 2), (Threads{1}));
}

TEST(WorkerCores, OfTwoPackagesGoToTwoWorkers) {
  const std::vector<Core> cores = describedCores("pack:2 core:4 pu:2");
  WorkerCores own{.host = "a", .online = 16, .allowed = {}};
  for (int thread = 0; thread < 16; ++thread) own.allowed.push_back(thread);
  EXPECT_EQ(coresOfWorker({own, own}, 1, cores),
            (OwnedCores{.threads = {8, 10, 12, 14, 9, 11, 13, 15}, .cores = 4, .lanes = 4}));
}

TEST(WorkerCores, UnderOneLimitShareIt) {
  WorkerCores own{
      .host = "a", .online = 8, .allowed = {0, 1, 2, 3, 4, 5, 6, 7}, .limit = CpuLimit{4.5, "/pod"}};
  const auto lanesOf = [](const std::vector<WorkerCores>& all, int rank) {
    return coresOfWorker(all, rank, separateCores(all[static_cast<std::size_t>(rank)].allowed)).lanes;
  };
  EXPECT_EQ(lanesOf({own}, 0), 4);
  EXPECT_EQ(lanesOf({own, own}, 0), 2);
  WorkerCores other = own;
  other.limit->group = "/pod2";
  EXPECT_EQ(lanesOf({own, other}, 0), 4) << "half of the cores, and a limit of its own";
  other.host = "b";
  EXPECT_EQ(lanesOf({own, other, other, other}, 1), 1);
  own.limit.reset();
  EXPECT_EQ(lanesOf({own, own}, 0), 4);
}

TEST(WorkerCores, ThatMpirunChoseAreKeptAndSaid) {
  const std::vector<WorkerCores> all = {{.host = "a", .online = 4, .allowed = {0}, .isBound = true},
                                        {.host = "a", .online = 4, .allowed = {1}, .isBound = true}};
  EXPECT_EQ(threadsOf(all, 0), (Threads{0}));
  EXPECT_EQ(threadsOf(all, 1), (Threads{1}));
  EXPECT_EQ(bindingNote(all, 1, 0),
            "mpirun binds the workers of a to 2 of its 4 cores; with mpirun --bind-to none they use all");
  EXPECT_EQ(bindingNote(all, 1, 2),
            "mpirun binds worker 1 to 1 core, too few for its 2 lanes; give mpirun --bind-to none");
  EXPECT_EQ(bindingNote(all, 1, 1), "") << "as asked for";
}

TEST(WorkerCores, AreToldToAWorkerAsText) {
  for (const OwnedCores& owned : {OwnedCores{.threads = {0, 1, 2, 8, 9, 10}, .cores = 3, .lanes = 3},
                                  OwnedCores{.threads = {4, 0}, .cores = 2, .lanes = 1},
                                  OwnedCores{.threads = {}, .cores = 0, .lanes = 1}}) {
    EXPECT_EQ(parseOwnedCores(ownedCoresText(owned), "a variable"), owned) << ownedCoresText(owned);
  }
  for (const char* wrong : {"", ":", "::", "1:1", "a:1:0", "1:1:x", "0-3"}) {
    EXPECT_THROW(parseOwnedCores(wrong, "a variable"), UsageError) << wrong;
  }
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
  EXPECT_EQ(all[0][0], workerCores());
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

}  // namespace
}  // namespace cohort
