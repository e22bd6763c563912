#include "launch/stall.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cohort {
namespace {

std::string nameOf(const WorkerView& worker) {
  return worker.host.empty() ? fmt::format("worker {}", worker.name)
                             : fmt::format("worker {} on {}", worker.name, worker.host);
}

std::string secondsText(double seconds) {
  return seconds < 1 ? fmt::format("{:g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

// "; worker 0, worker 2 wait for it", or nothing.
std::string waitersText(std::span<const WorkerView> workers, const WorkerView& held) {
  std::vector<std::string> waiting;
  for (const WorkerView& other : workers) {
    if (&other != &held && other.waitsForAnother) waiting.push_back(fmt::format("worker {}", other.name));
  }
  if (waiting.empty()) return "";
  return fmt::format("; {} {} for it", fmt::join(waiting, ", "), waiting.size() == 1 ? "waits" : "wait");
}

std::string sentenceOf(std::span<const WorkerView> workers, const WorkerView& held, const std::string& what) {
  return fmt::format("{} {}: it was {} after step {}{}", nameOf(held), what, held.doing, held.step,
                     waitersText(workers, held));
}

// The index of the worker in "worker 1: its part of step 12"; nothing where it names none of these.
std::optional<std::size_t> awaitedBy(std::span<const WorkerView> workers, const WorkerView& waiting) {
  constexpr std::string_view kWorker = "worker ";
  const std::string_view text = waiting.waitsFor;
  if (!text.starts_with(kWorker)) return std::nullopt;
  const std::string_view name = text.substr(kWorker.size(), text.find(':') - kWorker.size());
  const auto found = std::ranges::find(workers, name, &WorkerView::name);
  if (found == workers.end()) return std::nullopt;
  return static_cast<std::size_t>(found - workers.begin());
}

// From the first worker on, each the one that the one before waits for: those that wait for each other, or up to one that
// does not say whom it waits for.
std::vector<std::size_t> chainOf(std::span<const WorkerView> workers) {
  std::vector<std::size_t> chain{0};
  for (;;) {
    const std::optional<std::size_t> next = awaitedBy(workers, workers[chain.back()]);
    if (!next) return chain;
    const auto seen = std::ranges::find(chain, *next);
    if (seen != chain.end()) return {seen, chain.end()};
    chain.push_back(*next);
  }
}

// Where everybody waits for another and nothing has moved.
std::optional<Stall> findMutualWait(std::span<const WorkerView> workers, const StallLimits& limits) {
  const auto stands = [&](const WorkerView& worker) {
    return worker.waitsForAnother && !worker.mayRest && worker.stillSeconds >= limits.stillSeconds;
  };
  if (workers.size() < 2 || !std::ranges::all_of(workers, stands)) return std::nullopt;
  const std::string seconds =
      secondsText(std::ranges::min(workers, {}, &WorkerView::stillSeconds).stillSeconds);
  const std::vector<std::size_t> chain = chainOf(workers);
  std::vector<std::string> parts;
  parts.reserve(chain.size());
  for (const std::size_t index : chain) {
    parts.push_back(fmt::format("{} waits for {}", nameOf(workers[index]), workers[index].waitsFor));
  }
  return Stall{chain.front(), fmt::format("all workers wait for others and nothing has moved for {}: {}",
                                          seconds, fmt::join(parts, "; "))};
}

}  // namespace

std::optional<Stall> findStall(std::span<const WorkerView> workers, const StallLimits& limits) {
  const auto failed =
      std::ranges::find_if(workers, [](const WorkerView& worker) { return !worker.failure.empty(); });
  if (failed != workers.end()) {
    return Stall{static_cast<std::size_t>(failed - workers.begin()),
                 fmt::format("{} failed after step {}: {}", nameOf(*failed), failed->step, failed->failure)};
  }
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const WorkerView& worker = workers[i];
    if (!worker.end.empty()) return Stall{i, sentenceOf(workers, worker, worker.end)};
    const bool isSilent = worker.silentSeconds >= limits.silentSeconds;
    const bool isStill =
        !worker.mayRest && worker.waitsFor.empty() && worker.stillSeconds >= limits.stillSeconds;
    if (!isSilent && !isStill) continue;
    return Stall{
        i, sentenceOf(workers, worker,
                      isSilent ? fmt::format("gave no sign of life for {}", secondsText(worker.silentSeconds))
                               : fmt::format("did not move for {}", secondsText(worker.stillSeconds)))};
  }
  return findMutualWait(workers, limits);
}

}  // namespace cohort
