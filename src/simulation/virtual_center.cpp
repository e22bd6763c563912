#include "simulation/virtual_center.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

VirtualCenter::VirtualCenter(const CenterSetup& setup, const VirtualPlace& place,
                             std::span<const float> weights, std::span<const Shard::Slot> slots,
                             Workbench& workbench)
    : setup_(setup),
      acceptance_(acceptanceOf(setup.rule)),
      layout_(setup.parameters),
      tree_(setup.grains),
      cluster_(place),
      works_(workbench, layout_.size() * sizeof(float)),
      policy_(makePolicy(setup, {})),
      presences_(static_cast<std::size_t>(place.workers / place.groupSize)),
      health_(static_cast<std::size_t>(place.workers)) {
  COHORT_CHECK(place.workers % place.groupSize == 0, "groups have as many workers");
  makeStores(weights, slots);
}

void VirtualCenter::makeStores(std::span<const float> weights, std::span<const Shard::Slot> slots) {
  const int count = cluster_.place.servers;
  if (layout_.size() < static_cast<std::size_t>(count)) {
    throw UsageError(
        fmt::format("{} servers cannot share {} floats; use fewer --servers", count, layout_.size()));
  }
  for (int index = 0; index < count; ++index) {
    const ArenaRange slice = sliceOfServer(layout_.size(), index, count);
    auto store = std::make_unique<ShardStore>(layout_, setup_, slice);
    const auto part = [&](std::span<const float> arena) { return arena.subspan(slice.begin, slice.size()); };
    std::ranges::copy(part(weights), store->weights().begin());
    const std::vector<Shard::Slot> own = store->slots();
    COHORT_CHECK(own.size() == slots.size(), "a run begins with all slots");
    for (std::size_t i = 0; i < own.size(); ++i)
      std::ranges::copy(part(slots[i].values), own[i].values.begin());
    store->restore(0, StepSet(0));
    stores_.push_back(std::move(store));
  }
}

std::uint64_t VirtualCenter::bytesOf(int server) const {
  return stores_[static_cast<std::size_t>(server)]->slice().size() * sizeof(float);
}

// ---- coming and going

void VirtualCenter::begin() {
  for (int group = 0; group < groupCount(); ++group) {
    join(group);
    for (int worker = firstOf(group); worker < firstOf(group + 1); ++worker) planOutage(worker, 0);
  }
}

void VirtualCenter::join(int group) {
  const auto member = static_cast<MemberId>(groupOf_.size());
  presences_[static_cast<std::size_t>(group)].member = member;
  groupOf_.push_back(group);
  hasJoined(group);
  cluster_.queue.after(latency(group, 0), [this, member] { decide(Joined{member}); });
}

void VirtualCenter::planOutage(int worker, VirtualTime from) {
  const auto outage = cluster_.times.nextOutage(worker, from, health(worker).failures);
  if (!outage) return;
  const bool isForGood = outage->end == kNever;
  cluster_.queue.at(outage->begin, [this, worker, isForGood] { fail(worker, isForGood); });
  if (!isForGood) cluster_.queue.at(outage->end, [this, worker] { comeBack(worker); });
}

void VirtualCenter::fail(int worker, bool isForGood) {
  const int group = worker / cluster_.place.groupSize;
  Presence& own = presences_[static_cast<std::size_t>(group)];
  const bool wasUp = own.isUp();
  if (wasUp) {
    own.downSince = cluster_.queue.now();
    for (int each = firstOf(group); each < firstOf(group + 1); ++each) health(each).since = own.downSince;
  }
  tallyIdle(worker);
  health(worker).isAway = true;
  ++health(worker).failures;
  ++own.away;
  own.isOver |= isForGood;
  ++cluster_.counts.failures;
  if (!wasUp) return cluster_.failInVain(worker);
  ++own.life;
  hasFailed(group);
  // The first server hears of it when all that was sent before has come.
  if (sending_.contains(own.member)) return;
  cluster_.queue.after(latency(group, 0), [this, member = own.member] { leave(member); });
}

void VirtualCenter::comeBack(int worker) {
  const int group = worker / cluster_.place.groupSize;
  Presence& own = presences_[static_cast<std::size_t>(group)];
  tallyIdle(worker);
  health(worker).isAway = false;
  if (--own.away == 0) {
    for (int each = firstOf(group); each < firstOf(group + 1); ++each) tallyIdle(each);
    join(group);
  }
  if (!own.isOver) planOutage(worker, cluster_.queue.now());
}

void VirtualCenter::tallyIdle(int worker) {
  Health& own = health(worker);
  const VirtualTime time = cluster_.queue.now() - std::exchange(own.since, cluster_.queue.now());
  (own.isAway ? cluster_.tally(worker).away : cluster_.tally(worker).waiting) += time;
}

void VirtualCenter::endSending(int group, MemberId member, int life) {
  if (--sending_[member] > 0) return;
  sending_.erase(member);
  if (!isThere(group, life)) leave(member);
}

void VirtualCenter::leave(MemberId member) {
  hasLeft(member);
  decide(Left{member});
}

// ---- what a group computes

void VirtualCenter::compute(int group, const std::shared_ptr<WorkQueue::Job>& job, bool hasNewWeights,
                            const EventQueue::Action& done) {
  if (cluster_.place.groupSize == 1) return computeParts(group, job, done);
  const int life = presenceOf(group).life;
  auto missing = std::make_shared<int>(cluster_.place.groupSize - 1);
  const auto arrived = [this, group, life, job, done, missing] {
    if (--*missing == 0 && isThere(group, life)) computeParts(group, job, done);
  };
  for (int worker = firstOf(group) + 1; worker < firstOf(group + 1); ++worker) {
    if (hasNewWeights) {
      cluster_.network.send(hostOf(group), cluster_.hostOf(worker), arenaBytes(), arrived);
    } else {
      cluster_.queue.after(cluster_.network.latency(hostOf(group), cluster_.hostOf(worker)), arrived);
    }
  }
}

void VirtualCenter::computeParts(int group, const std::shared_ptr<WorkQueue::Job>& job,
                                 const EventQueue::Action& done) {
  const int size = cluster_.place.groupSize;
  const VirtualTime now = cluster_.queue.now();
  std::vector<VirtualTime> takes;  // by worker
  std::vector<int> hosts;
  for (int rank = 0; rank < size; ++rank) {
    const int worker = firstOf(group) + rank;
    const int grains = shareOf(job->work.grains, {rank, size}).count();
    takes.push_back(cluster_.times.compute(worker, job->work.step,
                                           {.count = grains, .samples = cluster_.place.grainSamples}, now));
    hosts.push_back(cluster_.hostOf(worker));
  }
  const VirtualTime slowest = *std::ranges::max_element(takes);
  job->due = now + slowest + cluster_.network.ringTime(hosts, arenaBytes());
  works_.add(job);
  cluster_.queue.at(job->due, [this, group, life = presenceOf(group).life, takes, slowest, done] {
    if (!isThere(group, life)) return;
    for (std::size_t rank = 0; rank < takes.size(); ++rank) {
      VirtualCluster::Tally& tally = cluster_.tally(firstOf(group) + static_cast<int>(rank));
      ++tally.works;
      tally.computing += takes[rank];
      tally.waiting += slowest - takes[rank];
    }
    cluster_.network.count(2 * (takes.size() - 1) * arenaBytes());
    done();
  });
}

void VirtualCenter::lose(int group) {
  for (int worker = firstOf(group); worker < firstOf(group + 1); ++worker) cluster_.lose(worker);
}

void VirtualCenter::addWaiting(int group, VirtualTime time) {
  for (int worker = firstOf(group); worker < firstOf(group + 1); ++worker)
    cluster_.tally(worker).waiting += time;
}

// ---- the first server

bool VirtualCenter::finish(MemberId member, const Work& work, std::span<const LossSum> losses) {
  const std::vector<Decision> decisions = policy_->handle(Finished{member, work});
  const bool isDropped =
      std::ranges::any_of(decisions, [](const Decision& d) { return std::holds_alternative<Drop>(d); });
  if (!isDropped) addLosses(work, losses);
  if (!isDropped && acceptance_ == Acceptance::AtOnce) ++done_;
  carryOut(decisions);
  return !isDropped;
}

void VirtualCenter::decide(const Event& event) {
  carryOut(policy_->handle(event));
}

void VirtualCenter::carryOut(const std::vector<Decision>& decisions) {
  for (const Decision& decision : decisions) {
    std::visit([this](const auto& what) { on(what); }, decision);
  }
}

void VirtualCenter::on(const Drop& /*drop*/) {
  ++cluster_.counts.dropped;
}

void VirtualCenter::on(const End& /*end*/) {
  hasEnded_ = true;
  decidedEnd();
}

void VirtualCenter::addLosses(const Work& work, std::span<const LossSum> losses) {
  auto& grains = losses_[work.step];
  grains.resize(static_cast<std::size_t>(setup_.grains));
  for (std::size_t i = 0; i < losses.size(); ++i)
    grains[static_cast<std::size_t>(work.grains.first) + i] = losses[i];
  if (std::ranges::all_of(grains, [](const auto& loss) { return loss.has_value(); })) tellLosses(work.step);
}

void VirtualCenter::tellLosses(Step step) {
  const auto found = losses_.find(step);
  if (found == losses_.end()) return;
  untold_ += sumOfLosses(tree_, found->second);
  losses_.erase(found);
}

// ---- from outside

std::optional<VirtualRun::Progress> VirtualCenter::advance() {
  while (!hasEnded_ && done_ == told_) {
    if (!cluster_.queue.runNext()) standStill();
  }
  if (done_ == told_) return std::nullopt;
  told_ = done_;
  cluster_.hasDone();
  return Progress{.done = done_, .loss = std::exchange(untold_, {})};
}

void VirtualCenter::standStill() const {
  VirtualTime last = 0;
  for (const Presence& own : presences_) last = std::max(last, own.downSince);
  throw UsageError(fmt::format(
      "at {:.3f} virtual seconds all workers that the rule needs have failed for good, and {} of {} "
      "steps are done; let some of them come 'back' in {}",
      secondsOf(last), done_, setup_.target, cluster_.place.source));
}

void VirtualCenter::copyState(std::span<float> weights, std::span<const Shard::Slot> slots) {
  for (const auto& own : stores_) {
    const ArenaRange slice = own->slice();
    std::ranges::copy(own->weights(), weights.begin() + static_cast<std::ptrdiff_t>(slice.begin));
    const std::vector<Shard::Slot> kept = own->slots();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      std::ranges::copy(kept[i].values, slots[i].values.begin() + static_cast<std::ptrdiff_t>(slice.begin));
    }
  }
}

VirtualOutcome VirtualCenter::outcome() const {
  VirtualOutcome all = cluster_.outcome();
  all.time = now();
  for (int worker = 0; worker < cluster_.place.workers; ++worker) {
    if (presenceOf(worker / cluster_.place.groupSize).isUp()) continue;
    const Health& own = health_[static_cast<std::size_t>(worker)];
    VirtualOutcome::Class& its = cluster_.classOf(all, worker);
    (own.isAway ? its.away : its.waiting) += now() - own.since;
  }
  return all;
}

}  // namespace cohort
