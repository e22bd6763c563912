// What workers with weights of their own do: steps and exchanges, or, where they gossip, visits.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "simulation/virtual_run.h"
#include "train/replay_engine.h"

namespace cohort {

// With a worker's own weights; what its rule says after it.
bool ReplayEngine::makeStep(Compute& desk, OwnState& own, const Work& work) {
  const std::vector<LossSum> losses = desk(work, own.weights(), [&](int, std::span<const float> gradient) {
    own.shards().front().update(0, gradient, work.step);
  });
  return own.finishStep(
      sumOfLosses(GrainTree(work.grains.count()), {losses.begin(), losses.end()}).meanLoss());
}

void ReplayEngine::makeSteps(Compute& desk, const ReplayWork& plan) {
  OwnState& own = *workers_[static_cast<std::size_t>(plan.worker)].own;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step step = plan.steps[i];
    const bool isDue = makeStep(desk, own, {step, plan.work.grains});
    if (isDue == (i + 1 == plan.steps.size())) continue;
    throw UsageError(
        fmt::format("after step {} there was {} exchange, and this program's rule wants {}: it is another "
                    "rule than the run's, or it does not follow from what it is told alone",
                    step, isDue ? "no" : "an", isDue ? "one" : "none"));
  }
}

void ReplayEngine::exchange(int index) {
  Running& work = works_[static_cast<std::size_t>(index)];
  OwnState& own =
      *workers_[static_cast<std::size_t>(plan_.works[static_cast<std::size_t>(index)].worker)].own;
  Sums sums{0, takeBuffer()};
  own.exchange(work.weights.span(), sums.values.span());
  giveBuffer(std::exchange(work.weights, {}));
  if (work.uses > 0) {
    work.sums.push_back(std::move(sums));
  } else {
    giveBuffer(std::move(sums.values));
  }
}

// ---- gossip

bool ReplayEngine::isVisit(int index) const {
  const ReplayWork& plan = plan_.works[static_cast<std::size_t>(index)];
  return plan.worker >= 0 &&
         applicationOf(plan_.openings[static_cast<std::size_t>(plan.opening)].setup->rule) ==
             Application::Mail;
}

// Under the mutex: what its worker does before it is done.
void ReplayEngine::beginTurn(int index) {
  if (isVisit(index)) {
    Running& work = works_[static_cast<std::size_t>(index)];
    work.isStepped = true;
    if (work.missing > 0) return;  // its mail comes
  }
  ready_.push_back(index);
}

// The timeline has the version that the visit before this one made. Where that was in an earlier life of the server, and the answer was
// not heard, nothing was found.
void ReplayEngine::giveMail(int timeline, int index) {
  const ReplayWork& plan = plan_.works[static_cast<std::size_t>(index)];
  const GossipPost::Found* found = timelineOf(timeline).store->post().foundBy(
      {plan_.workers[static_cast<std::size_t>(plan.worker)].token, plan.number - 1});
  if (found == nullptr || found->part == 0) return;
  Running& work = works_[static_cast<std::size_t>(index)];
  if (work.weights.size() == 0) work.weights = takeBuffer();
  const ArenaRange slice = sliceOf(timeline);
  std::ranges::copy(found->letters->span(), work.weights.data() + slice.begin);
  work.mail.push_back({.range = slice, .part = found->part});
}

void ReplayEngine::makeVisit(Compute& desk, int index) {
  Running& work = works_[static_cast<std::size_t>(index)];
  const ReplayWork& plan = plan_.works[static_cast<std::size_t>(index)];
  OwnState& own = *workers_[static_cast<std::size_t>(plan.worker)].own;
  for (const Running::Mail& mail : work.mail) {
    own.readMail(mail.range, work.weights.span().subspan(mail.range.begin, mail.range.size()), mail.part);
  }
  if (work.weights.size() > 0) giveBuffer(std::exchange(work.weights, {}));
  if (!makeStep(desk, own, plan.work) || work.uses == 0) return;
  Sums& letter = work.sums.emplace_back(Sums{0, takeBuffer()});
  own.writeLetter(letter.values.span());
}

void ReplayEngine::applyVisit(int timeline, std::size_t index) {
  const ReplayTimeline& plan = planOf(timeline);
  const JournalUpdate update = (*plan.journal)[index];
  ShardStore& store = *timelineOf(timeline).store;
  if (update.isLeaving) {
    const auto& members = plan.journal->members();
    const auto who = std::ranges::find(members, update.member, &Journal::Member::member);
    store.leave(who->token);
    return;
  }
  const int which = plan.works[index == 0 ? 0 : plan.ends[index - 1]];
  const Running& work = works_[static_cast<std::size_t>(which)];
  FloatBuffer letter;
  if (!work.sums.empty()) {
    const ArenaRange slice = sliceOf(timeline);
    letter = store.takeBuffer();
    std::ranges::copy(work.sums.front().values.span().subspan(slice.begin, slice.size()), letter.data());
  }
  const ReplayWork& visit = plan_.works[static_cast<std::size_t>(which)];
  store.visit({plan_.workers[static_cast<std::size_t>(visit.worker)].token, visit.number}, std::move(letter));
  release(which);
}

}  // namespace cohort
