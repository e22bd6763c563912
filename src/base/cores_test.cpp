#include "base/cores.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/host.h"

namespace cohort {
namespace {

using Threads = std::vector<int>;

// Two packages of four cores with two threads each, as Linux numbers them: all first threads before all second ones.
std::vector<Core> twoPackages() {
  std::vector<Core> cores;
  for (int core = 0; core < 8; ++core) {
    cores.push_back({.package = core / 4, .node = core / 4, .cache = core / 4, .threads = {core, core + 8}});
  }
  return cores;
}

TEST(Cores, ComeBeforeTheirSiblings) {
  const OwnedCores all = coresOfPart(twoPackages(), 0, 1);
  EXPECT_EQ(all.lanes, 8);
  EXPECT_EQ(all.cores, 8);
  EXPECT_EQ(all.threads, (Threads{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(Cores, OfOnePackageGoToOneWorkerWithAllTheirThreads) {
  EXPECT_EQ(coresOfPart(twoPackages(), 0, 2),
            (OwnedCores{.threads = {0, 1, 2, 3, 8, 9, 10, 11}, .cores = 4, .lanes = 4}));
  EXPECT_EQ(coresOfPart(twoPackages(), 1, 2),
            (OwnedCores{.threads = {4, 5, 6, 7, 12, 13, 14, 15}, .cores = 4, .lanes = 4}));
  EXPECT_EQ(coresOfPart(twoPackages(), 2, 4).threads, (Threads{4, 5, 12, 13}));
}

TEST(Cores, AreNeighboursByTheirCacheWhateverTheirNumbers) {
  // Even threads on one package, odd ones on the other, and caches of two cores.
  std::vector<Core> cores;
  for (int core = 0; core < 8; ++core) {
    cores.push_back(
        {.package = core % 2, .node = core % 2, .cache = core % 2 * 2 + core / 4, .threads = {core}});
  }
  EXPECT_EQ(coresOfPart(cores, 0, 2).threads, (Threads{0, 2, 4, 6}));
  EXPECT_EQ(coresOfPart(cores, 1, 4).threads, (Threads{4, 6}));
  EXPECT_EQ(coresOfPart(cores, 2, 4).threads, (Threads{1, 3}));
}

TEST(Cores, AreOnlyTheAllowedOnes) {
  // Holes: half of core 1, all of core 2, and of the second package one thread.
  const std::vector<Core> cores = allowedOf(twoPackages(), {0, 1, 2, 8, 10, 13});
  ASSERT_EQ(cores.size(), 4u);
  EXPECT_EQ(coresOfPart(cores, 0, 1), (OwnedCores{.threads = {0, 1, 2, 13, 8, 10}, .cores = 4, .lanes = 4}));
  EXPECT_EQ(coresOfPart(cores, 0, 2).threads, (Threads{0, 1, 8}));
  EXPECT_EQ(coresOfPart(cores, 1, 2).threads, (Threads{2, 13, 10}));
  EXPECT_EQ(allowedOf({}, {3, 5}), separateCores({3, 5})) << "nobody knows better";
}

TEST(Cores, AreDividedByThreadsWhereThereAreMoreWorkers) {
  const std::vector<Core> cores = allowedOf(twoPackages(), {0, 8, 1, 9});
  EXPECT_EQ(coresOfPart(cores, 0, 4).threads, (Threads{0}));
  EXPECT_EQ(coresOfPart(cores, 1, 4).threads, (Threads{8}));
  EXPECT_EQ(coresOfPart(cores, 3, 4), (OwnedCores{.threads = {9}, .cores = 1, .lanes = 1}));
  EXPECT_EQ(coresOfPart(cores, 2, 3), (OwnedCores{.threads = {1, 9}, .cores = 1, .lanes = 1}))
      << "two threads of one core are no two lanes";
  EXPECT_EQ(coresOfPart(cores, 0, 5), (OwnedCores{.threads = {}, .cores = 0, .lanes = 1}));
}

TEST(Cores, BelongToOneWorkerEach) {
  for (int workers = 1; workers <= 20; ++workers) {
    std::multiset<int> seen;
    int least = 99;
    int most = 0;
    for (int part = 0; part < workers; ++part) {
      const OwnedCores own = coresOfPart(twoPackages(), part, workers);
      seen.insert(own.threads.begin(), own.threads.end());
      least = std::min(least, own.cores);
      most = std::max(most, own.cores);
    }
    EXPECT_EQ(seen.size(), 16u) << workers;
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 16u) << workers;
    EXPECT_LE(most - least, 1) << workers;
  }
}

TEST(Cores, AreReadFromADescription) {
  const std::vector<Core> cores = describedCores("pack:2 l3:2 core:2 pu:2");
  ASSERT_EQ(cores.size(), 8u);
  EXPECT_EQ(cores[0].threads, (Threads{0, 1}));
  EXPECT_EQ(cores[7].threads, (Threads{14, 15}));
  EXPECT_EQ(cores[0].cache, cores[1].cache);
  EXPECT_NE(cores[1].cache, cores[2].cache);
  EXPECT_EQ(cores[2].package, cores[3].package);
  EXPECT_NE(cores[3].package, cores[4].package);
  const std::vector<Core> nodes = describedCores("[numa] pack:1 [numa] group:2 [numa] core:2 pu:1");
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[0].node, nodes[1].node);
  EXPECT_NE(nodes[1].node, nodes[2].node);
}

TEST(Cores, OfThisHostAreTheAllowedOnes) {
  Threads threads;
  for (const Core& core : hostCores())
    threads.insert(threads.end(), core.threads.begin(), core.threads.end());
  std::ranges::sort(threads);
  EXPECT_EQ(threads, allowedCores());
  EXPECT_GE(ownCores().lanes, 1);
  EXPECT_LE(ownCores().lanes, static_cast<int>(hostCores().size()));
}

}  // namespace
}  // namespace cohort
