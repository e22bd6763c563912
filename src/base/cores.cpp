#include "base/cores.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>

#include "base/error.h"

namespace cohort {
namespace {

template <class Item>
std::vector<Item> partOf(const std::vector<Item>& all, int part, int parts) {
  const auto bound = [&](int index) {
    return all.begin() + static_cast<std::ptrdiff_t>(all.size() * static_cast<std::size_t>(index) /
                                                     static_cast<std::size_t>(parts));
  };
  return {bound(part), bound(part + 1)};
}

// The first threads of all cores, then the second ones, ….
std::vector<int> coresFirst(const std::vector<Core>& cores) {
  std::vector<int> threads;
  for (std::size_t sibling = 0;; ++sibling) {
    const std::size_t before = threads.size();
    for (const Core& core : cores) {
      if (sibling < core.threads.size()) threads.push_back(core.threads[sibling]);
    }
    if (threads.size() == before) return threads;
  }
}

// Each thread as if it was a core.
std::vector<Core> threadsOf(const std::vector<Core>& cores) {
  std::vector<Core> threads;
  for (const Core& core : cores) {
    for (const int thread : core.threads) {
      threads.push_back(
          {.package = core.package, .node = core.node, .cache = core.cache, .threads = {thread}});
    }
  }
  return threads;
}

}  // namespace

std::vector<Core> separateCores(const std::vector<int>& threads) {
  std::vector<Core> cores;
  cores.reserve(threads.size());
  for (const int thread : threads) cores.push_back({.threads = {thread}});
  return cores;
}

std::vector<Core> allowedOf(const std::vector<Core>& cores, const std::vector<int>& allowed) {
  std::set<int> rest(allowed.begin(), allowed.end());
  std::vector<Core> result;
  for (const Core& core : cores) {
    Core kept = core;
    std::erase_if(kept.threads, [&](int thread) { return rest.erase(thread) == 0; });
    if (!kept.threads.empty()) result.push_back(std::move(kept));
  }
  for (const int thread : rest) result.push_back({.threads = {thread}});
  return result;
}

OwnedCores coresOfPart(const std::vector<Core>& cores, int part, int workers) {
  COHORT_CHECK(part >= 0 && part < workers, "a part is one of its parts");
  std::vector<Core> sorted = cores;
  std::ranges::sort(sorted, {}, [](const Core& core) {
    return std::tuple(core.package, core.node, core.cache, core.threads.front());
  });
  const bool areThreadsDivided = sorted.size() < static_cast<std::size_t>(workers);
  const std::vector<Core> own = partOf(areThreadsDivided ? threadsOf(sorted) : sorted, part, workers);
  // Two threads of one core are one core still.
  const int count =
      areThreadsDivided ? std::min<int>(1, static_cast<int>(own.size())) : static_cast<int>(own.size());
  return {.threads = coresFirst(own), .cores = count, .lanes = std::max(1, count)};
}

}  // namespace cohort
