#include "train/worker_share.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "sync/bulk_synchronous.h"
#include "sync/divided_synchronous.h"

namespace cohort {
namespace {

constexpr int kRuleTags = 16;  // a rule's own, beside its exchange's

}  // namespace

GrainShares shareGrains(const Channel& workers, const RunConfig& config, int threads) {
  std::string list;
  for (const std::string& text : workers.gather(std::to_string(threads), "its number of lanes")) {
    list += text + " ";
  }
  std::istringstream all(workers.broadcast(list, "the workers' numbers of lanes"));
  const int size = workers.workers().size();
  const auto grains = static_cast<int>(config.grains);
  GrainShares shares{.division = GrainDivision::equal(grains, size)};
  for (int count = 0; all >> count;) shares.threads.push_back(count);
  COHORT_CHECK(static_cast<int>(shares.threads.size()) == size, "every worker has told its lanes");
  if (!config.grainsPerWorker.empty()) {
    shares.division = GrainDivision(parseGrainsPerWorker(config.grainsPerWorker, "--grains-per-worker"));
  } else if ((config.sync == "bsp" || config.sync == "group") && config.wire == "fp32") {
    // Of other bits one could not tell which division they come from.
    shares.division = GrainDivision::byLanes(grains, shares.threads);
  }
  return shares;
}

std::string noteOf(const GrainShares& shares, const RunConfig& config) {
  const bool isGiven = !config.grainsPerWorker.empty();
  const bool areEqual =
      std::ranges::all_of(shares.threads, [&](int threads) { return threads == shares.threads.front(); });
  if (areEqual && !isGiven) return "";
  std::vector<std::string> texts;
  const std::vector<int> counts = shares.division.counts();
  for (std::size_t first = 0, last = 0; first < counts.size(); first = last) {
    while (last < counts.size() && counts[last] == counts[first] &&
           shares.threads[last] == shares.threads[first])
      ++last;
    texts.push_back(fmt::format("{} {} of them on {} lane{}",
                                last - first == 1 ? fmt::format("worker {} has", first)
                                                  : fmt::format("workers {}-{} have", first, last - 1),
                                counts[first], std::min(shares.threads[first], counts[first]),
                                std::min(shares.threads[first], counts[first]) == 1 ? "" : "s"));
  }
  return fmt::format("grains are divided {}: {}",
                     isGiven ? "as --grains-per-worker says" : "by the workers' lanes",
                     fmt::join(texts, ", "));
}

int laneCount(const DividedRun* divided, const GrainRange& own, int threads) {
  return divided != nullptr ? divided->lanes : std::min(threads, own.count());
}

std::optional<GroupPart> groupPartOf(const DividedRun* divided, Communicator& workers) {
  if (divided == nullptr) return std::nullopt;
  return GroupPart{divided->local, Group(workers, divided->plan.ownGroup()), kCollectivesTag};
}

WorkerShare::WorkerShare(Communicator& workers, const ParameterLayout& layout, const DividedRun* divided,
                         GrainDivision division)
    : workers_(workers), divided_(divided), division_(std::move(division)) {
  if (divided_ != nullptr) {
    owned_ = divided_->plan.owned();
    COHORT_CHECK(DividedSynchronous::tagCount(divided_->plan) <= kAveragesTag, "tags do not overlap");
  } else {
    plan_.emplace(layout, workers.size());
    owned_ = plan_->ownership();
    COHORT_CHECK(ShardExchange::tagCount(*plan_, GrainTree(division_.grains())) + kRuleTags <= kAveragesTag,
                 "tags do not overlap");
  }
}

std::unique_ptr<SyncRule> WorkerShare::makeRule(TrainingState& state, int lanes, Wire wire) const {
  if (divided_ != nullptr) {
    COHORT_CHECK(lanes * lanePortTags(divided_->local.graph) <= Communicator::kTags - kCollectivesTag,
                 "every lane has its tags");
    return std::make_unique<DividedSynchronous>(workers_, divided_->local.layout, divided_->plan,
                                                state.shards, state.weights.span(), divided_->rounds.count(),
                                                lanes, wire);
  }
  return makeBulkSynchronous(workers_, state.layout, *plan_, state.shards, state.weights.span(), division_,
                             lanes, wire);
}

std::unique_ptr<SliceGather> WorkerShare::makeCompletion(TrainingState& state) const {
  if (divided_ == nullptr) return nullptr;
  return std::make_unique<SliceGather>(workers_, divided_->plan.privates(), state.weights.span(),
                                       kWeightsTag);
}

LaneBatches::LaneBatches(const BatchSource& source, const DividedRun* divided, const SyncRule& rule,
                         int lanes, Step firstStep, int threads) {
  std::vector<GrainRange> units;
  units.reserve(static_cast<std::size_t>(lanes));
  for (int lane = 0; lane < lanes; ++lane) units.push_back(rule.grainsOf(lane));
  if (divided != nullptr) {
    rounds_ = std::make_unique<RoundBatches>(source, divided->rounds, units,
                                             divided->local.graph.grainsIn(0) > 1, firstStep, threads);
    return;
  }
  std::vector<Prefetcher::LaneGrains> grains;
  grains.reserve(units.size());
  for (const GrainRange& lane : units) grains.push_back(Prefetcher::range(lane.first, lane.last));
  grains_ = std::make_unique<Prefetcher>(source, std::move(grains), firstStep, threads);
}

Batch LaneBatches::next(int lane, Step step, GrainIndex unit) {
  if (rounds_) return rounds_->next(lane, step, unit);
  const Batch batch = grains_->next(lane);
  COHORT_CHECK(batch.position / batch.globalSize == step, "the samples are another step's");
  return batch;
}

}  // namespace cohort
