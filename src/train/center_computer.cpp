#include "train/center_computer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "sync/center_steps.h"
#include "sync/group_steps.h"
#include "train/same_configuration.h"

namespace cohort {
namespace {

constexpr int kChannel = 0;
constexpr int kOrdersTag = kWeightsTag;

}  // namespace

CenterComputer::CenterComputer(const RunContext& context, RunConfig& config, const WorkerPlace& place)
    : config_(config),
      place_(place),
      channel_(place.workers, kChannel),
      data_(openData(context, config)),
      division_(shareGrains(channel_, config_, threadsOf(config_, place_)).division),
      lanes_(laneCount(), coresOf(config_, place, laneCount())),
      model_(makeModel(context, config_, lanes_)),
      share_(place.workers, model_->layout(), nullptr, division_),
      batches_(*data_.train, {.batchSize = config_.batchSize,
                              .grains = static_cast<int>(config_.grains),
                              .seed = config_.seed,
                              .shuffle = config_.shuffle && config_.randomness}) {
  requireSameConfiguration(channel_, config_);
}

// A work may be a part of a step only where workers share all steps.
int CenterComputer::laneCount() const {
  const int own = division_.of(place_.workers.rank()).count();
  const int most = stepsAlone(config_) ? own : std::max(1, own / static_cast<int>(config_.workers));
  return lanesOf(config_, place_, most);
}

void CenterComputer::begin(CenterClient* center, const RunContext& context, std::span<float> weights) {
  if (cohort::exchanges(config_)) {
    own_ = makeOwnState(context, config_, layout(), samples(), share_.own());
    weights_ = own_->weights();
  } else {
    if (weights.empty()) copy_ = FloatBuffer(layout().size());
    weights_ = weights.empty() ? copy_.span() : weights;
  }
  rule_ = makeRule(center);
  orders_.emplace(place_.workers, weights_, kOrdersTag);
}

std::unique_ptr<CenterWorker> CenterComputer::makeRule(CenterClient* center) {
  if (own_) {
    const ExchangeSteps::Part part{
        .group = place_.workers, .plan = share_.plan(), .division = division_, .lanes = lanes_.count()};
    if (gossips(config_)) return std::make_unique<GossipSteps>(center, *own_, layout(), part);
    return std::make_unique<ExchangeSteps>(center, *own_, layout(), part);
  }
  if (place_.workers.size() > 1) {
    return std::make_unique<GroupSteps>(center, place_.workers, layout(), share_.plan(), division_,
                                        lanes_.count());
  }
  return std::make_unique<CenterSteps>(*center, layout(), division_.grains(), lanes_.count());
}

void CenterComputer::prepare() {
  model_->prepareTraining(weights_);
  model_->tell(place_.activity);
  trainer_ = std::make_unique<Trainer>(lanes_, model_->trainables(), *rule_, place_.activity);
}

void CenterComputer::forgetPlans() {
  planned_.reset();
  prefetcher_.reset();
}

void CenterComputer::plan(const Work& work) {
  if (planned_ == work) return;
  prefetcher_->plan(work.step, laneGrains(work));
  planned_ = work;
}

std::vector<Prefetcher::LaneGrains> CenterComputer::laneGrains(const Work& work) const {
  std::vector<Prefetcher::LaneGrains> lanes;
  for (int lane = 0; lane < lanes_.count(); ++lane) {
    const GrainRange grains = shareOf(rule_->shareIn(work), {lane, lanes_.count()});
    lanes.push_back(Prefetcher::range(grains.first, grains.last));
  }
  return lanes;
}

StepResult CenterComputer::compute(const Work& work, bool isBeginning, const std::optional<Work>& following,
                                   std::span<float> gradients) {
  // What was planned may have been given to another.
  if (!prefetcher_ || (planned_ && *planned_ != work)) {
    prefetcher_ = std::make_unique<Prefetcher>(batches_, lanes_.count(),
                                               dataThreadsOf(config_, *data_.train, lanes_.count()));
    planned_.reset();
  }
  plan(work);
  if (following) plan(*following);
  rule_->take(work, isBeginning);
  rule_->keepGradients(gradients);
  const StepResult result =
      trainer_->step(work.step, [this](int lane, Step, GrainIndex) { return prefetcher_->next(lane); });
  if (planned_ == work) planned_.reset();  // it is taken, and may be given again
  if (!std::isfinite(result.loss.loss)) {
    throw UsageError(fmt::format(
        "the loss is no longer a number at step {}; the last checkpoint is kept, a smaller --lr would help",
        work.step));
  }
  return result;
}

TimeShares CenterComputer::times() const {
  if (!trainer_) return {};
  const double lanes = lanes_.count();
  const PhaseSeconds seconds = trainer_->seconds();
  const double update = rule_->updateSeconds() / lanes;  // inside of the backward passes
  return {.data = seconds.data / lanes,
          .forward = seconds.forward / lanes,
          .backward = seconds.backward / lanes - update,
          .update = update,
          .wait = seconds.wait / lanes};
}

}  // namespace cohort
