#include "simulation/center_simulation.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace cohort {

CenterSimulation::CenterSimulation(const CenterSetup& setup, const VirtualPlace& place,
                                   std::span<const float> weights, std::span<const Shard::Slot> slots,
                                   Workbench& workbench)
    : VirtualCenter(setup, place, weights, slots, workbench),
      groups_(static_cast<std::size_t>(groupCount())),
      waiting_(static_cast<std::size_t>(place.servers)) {
  for (Group& own : groups_) own.slices.resize(waiting_.size());
  begin();
}

void CenterSimulation::hasFailed(int index) {
  Group& own = group(index);
  own.orders.clear();
  own.hasAsked = false;
  own.last.reset();
  own.slices.assign(waiting_.size(), {});
  if (!own.job) return;
  works_.remove(own.job);
  own.job.reset();
  lose(index);
}

// ---- a group

// It has something to compute, and the weights for it?
void CenterSimulation::tryStart(int index) {
  Group& own = group(index);
  if (!presenceOf(index).isUp() || own.job || own.orders.empty()) return;
  const Order& order = own.orders.front();
  if (own.hasAsked && own.missing > 0) {
    // Weights after a step do not come before all of it is done: a part that another has left behind is taken first.
    const bool isLeftBehind =
        acceptance_ == Acceptance::WhenComplete && own.last && order.assign.version <= own.last->step;
    if (!isLeftBehind) return;
    own.hasAsked = false;
  }
  const bool isOld = std::ranges::any_of(
      own.slices, [&](const Slice& slice) { return slice.version < order.assign.version; });
  if (!own.hasAsked || isOld) {
    ask(index, order.assign.version, order.commit, true);
    return;
  }
  start(index);
}

// All servers for the newest weights, of at least this version. What follows a gradient comes with it, without a latency of its own.
void CenterSimulation::ask(int index, Step version, const std::optional<Commit>& commit, bool withLatency) {
  Group& own = group(index);
  own.hasAsked = true;
  own.missing = serverCount();
  own.held = 0;
  ++own.ticket;
  if (!withLatency) return;
  for (int s = 0; s < serverCount(); ++s) {
    const Pull pull{.group = index, .life = presenceOf(index).life, .ticket = own.ticket, .version = version};
    cluster_.queue.after(latency(index, s), [this, s, pull, commit] { hearPull(s, pull, commit); });
  }
}

void CenterSimulation::start(int index) {
  Group& own = group(index);
  const Order order = std::move(own.orders.front());
  own.orders.pop_front();
  addWaiting(index, own.held + std::max<VirtualTime>(0, order.since - own.freeAt));
  auto job = std::make_shared<Job>(*this);
  job->work = order.assign.work;
  job->slices = std::exchange(own.slices, std::vector<Slice>(waiting_.size()));
  if (acceptance_ == Acceptance::WhenComplete) {
    COHORT_CHECK(
        std::ranges::all_of(job->slices, [&](const Slice& slice) { return slice.version == job->work.step; }),
        "a step is computed with its own weights");
  }
  own.hasAsked = false;
  own.job = job;
  compute(index, job, true, [this, index, job] { finishComputing(index, job); });
}

void CenterSimulation::finishComputing(int index, const std::shared_ptr<Job>& job) {
  Group& own = group(index);
  own.job.reset();
  own.last = job->work;
  const Presence& self = presenceOf(index);
  beginSending(self.member);
  const auto nodes = tree_.cover(job->work.grains).size();
  if (acceptance_ != Acceptance::OnCommit) ask(index, 0, std::nullopt, false);
  auto delivery = std::make_shared<Delivery>();
  *delivery = {.job = job,
               .group = index,
               .life = self.life,
               .ticket = own.ticket,
               .member = self.member,
               .missing = serverCount()};
  for (int s = 0; s < serverCount(); ++s) {
    cluster_.network.send(hostOf(index), cluster_.hostOfServer(s), nodes * bytesOf(s),
                          [this, s, delivery] { receive(s, delivery); });
  }
}

// ---- servers

void CenterSimulation::receive(int s, const std::shared_ptr<Delivery>& delivery) {
  const Job& job = *delivery->job;
  const Step before = store(s).version();
  push(s, delivery->job);
  if (store(s).version() != before) answerPulls(s);
  if (acceptance_ != Acceptance::OnCommit) {
    const Step version = acceptance_ == Acceptance::WhenComplete ? job.work.step + 1 : 0;
    hearPull(
        s, {.group = delivery->group, .life = delivery->life, .ticket = delivery->ticket, .version = version},
        std::nullopt);
  }
  confirm(s, delivery);
}

void CenterSimulation::push(int s, const std::shared_ptr<Job>& job) {
  // Of a step that is committed already, nobody needs what comes now: it is not even computed.
  if (acceptance_ == Acceptance::OnCommit && job->work.step < done_) {
    works_.remove(job);
    return;
  }
  works_.require(job);
  const Step before = store(s).version();
  const Step basis = job->slices[static_cast<std::size_t>(s)].version;
  bool isTaken = false;
  for (Job::Node& node : job->gradient) {
    isTaken |= store(s).push({.step = job->work.step, .node = node.node, .basis = basis},
                             std::move(node.slices[static_cast<std::size_t>(s)]));
  }
  if (s == 0 && isTaken && acceptance_ == Acceptance::AtOnce)
    ++cluster_.counts.staleness[std::max<Step>(0, before - basis)];
}

// The first server hears that a work is finished when all have its gradient: others tell the worker, who tells it.
void CenterSimulation::confirm(int s, const std::shared_ptr<Delivery>& delivery) {
  const VirtualTime now = cluster_.queue.now();
  if (s == 0) {
    delivery->confirmedAt = std::max(delivery->confirmedAt, now);
  } else {
    const VirtualTime word = latency(delivery->group, s) + latency(delivery->group, 0);
    delivery->confirmedAt = std::max(delivery->confirmedAt, now + word);
  }
  if (--delivery->missing > 0) return;
  if (delivery->confirmedAt == now) return hearFinished(delivery);
  cluster_.queue.at(delivery->confirmedAt, [this, delivery] { hearFinished(delivery); });
}

void CenterSimulation::hearFinished(const std::shared_ptr<Delivery>& delivery) {
  const Job& job = *delivery->job;
  if (acceptance_ == Acceptance::OnCommit)
    group(delivery->group).freeAt = cluster_.queue.now() + latency(delivery->group, 0);
  finish(delivery->member, job.work, job.losses);
  endSending(delivery->group, delivery->member, delivery->life);
}

void CenterSimulation::hearPull(int s, const Pull& pull, const std::optional<Commit>& commit) {
  if (commit && acceptance_ == Acceptance::OnCommit && store(s).commit(commit->step, commit->grains))
    answerPulls(s);
  Pull heard = pull;
  heard.since = cluster_.queue.now();
  if (store(s).version() >= heard.version) {
    answer(s, heard);
  } else {
    waitingAt(s).push_back(heard);
  }
}

void CenterSimulation::answerPulls(int s) {
  for (const Pull& pull : std::exchange(waitingAt(s), {})) {
    if (store(s).version() >= pull.version) {
      answer(s, pull);
    } else {
      waitingAt(s).push_back(pull);
    }
  }
}

void CenterSimulation::answer(int s, const Pull& pull) {
  const auto isOver = [this, pull] {
    return !isThere(pull.group, pull.life) || group(pull.group).ticket != pull.ticket;
  };
  if (isOver()) return;
  const VirtualTime held = cluster_.queue.now() - pull.since;
  Slice slice{.floats = store(s).snapshot(), .version = store(s).version()};
  cluster_.network.send(cluster_.hostOfServer(s), hostOf(pull.group), bytesOf(s),
                        [this, s, pull, held, isOver, slice = std::move(slice)] {
                          if (isOver()) return;
                          Group& own = group(pull.group);
                          own.slices[static_cast<std::size_t>(s)] = slice;
                          own.held = std::max(own.held, held);
                          if (--own.missing > 0) return;
                          if (acceptance_ != Acceptance::OnCommit) own.freeAt = cluster_.queue.now();
                          tryStart(pull.group);
                        });
}

// ---- gradients

Workbench::Task CenterSimulation::Job::task() {
  Workbench::Task task;
  task.work = work;
  for (const Slice& slice : slices) task.weights.push_back(slice.floats->span());
  task.done = [this](const Workbench::Result& result) {
    for (const Workbench::Result::Node& node : result.gradients) {
      Node& own = gradient.emplace_back(Node{.node = node.node, .slices = {}});
      for (int s = 0; s < simulation.serverCount(); ++s) {
        const ArenaRange range = simulation.store(s).slice();
        FloatBuffer buffer = simulation.store(s).takeBuffer();
        std::ranges::copy(node.sums.subspan(range.begin, range.size()), buffer.data());
        own.slices.push_back(std::move(buffer));
      }
    }
    losses.assign(result.losses.begin(), result.losses.end());
  };
  return task;
}

void CenterSimulation::Job::wasComputed() {
  for (Slice& slice : slices) slice.floats.reset();
}

// ---- the first server

void CenterSimulation::decided(const Assign& assign) {
  const int index = groupOf(assign.member);
  Order order{.assign = assign, .commit = lastCommit_};
  cluster_.queue.after(latency(index, 0), [this, index, order = std::move(order)]() mutable {
    const Presence& self = presenceOf(index);
    if (!self.isUp() || self.member != order.assign.member) return;
    order.since = cluster_.queue.now();
    group(index).orders.push_back(std::move(order));
    tryStart(index);
  });
}

void CenterSimulation::decided(const Commit& commit) {
  tellLosses(commit.step);
  done_ = commit.step + 1;
  if (acceptance_ != Acceptance::OnCommit) return;
  lastCommit_ = commit;
  const bool isMade = store(0).commit(commit.step, commit.grains);
  COHORT_CHECK(isMade, "the first server has what it commits");
  answerPulls(0);
}

// Other servers hear of the last commit with the last weights.
void CenterSimulation::decidedEnd() {
  if (!lastCommit_) return;
  for (int s = 0; s < serverCount(); ++s) store(s).commit(lastCommit_->step, lastCommit_->grains);
}

}  // namespace cohort
