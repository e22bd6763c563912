#include "simulation/exchange_simulation.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace cohort {

ExchangeSimulation::ExchangeSimulation(const CenterSetup& setup, const VirtualPlace& place,
                                       std::span<const float> weights, MakeOwn makeOwn, Workbench& workbench)
    : VirtualCenter(setup, place, weights, {}, workbench),
      makeOwn_(std::move(makeOwn)),
      groups_(static_cast<std::size_t>(groupCount())),
      center_(layout_.size()),
      change_(layout_.size()) {
  begin();
}

void ExchangeSimulation::hasFailed(int index) {
  Group& own = group(index);
  if (own.job) {
    works_.remove(own.job);
    lose(index);
  }
  own = Group{};
}

void ExchangeSimulation::decided(const Assign& assign) {
  const int index = groupOf(assign.member);
  cluster_.queue.after(latency(index, 0), [this, index, assign] {
    const Presence& self = presenceOf(index);
    if (!self.isUp() || self.member != assign.member) return;
    group(index).orders.push_back({.work = assign.work, .since = cluster_.queue.now()});
    tryStart(index);
  });
}

void ExchangeSimulation::decided(const Commit& /*commit*/) {
  COHORT_CHECK(false, "exchanges need no commit");
}

// ---- a group

void ExchangeSimulation::tryStart(int index) {
  Group& own = group(index);
  if (own.isBusy || own.orders.empty()) return;
  own.isBusy = true;
  if (own.own) return start(index);
  pull(index, [this, index] { beginOwn(index); });
}

void ExchangeSimulation::pull(int index, const std::function<void()>& then) {
  Group& own = group(index);
  own.slices.assign(static_cast<std::size_t>(serverCount()), {});
  own.missing = serverCount();
  const int life = presenceOf(index).life;
  for (int s = 0; s < serverCount(); ++s) {
    cluster_.queue.after(latency(index, s), [this, index, s, life, then] {
      Slice slice{.floats = store(s).snapshot(), .version = store(s).version()};
      cluster_.network.send(cluster_.hostOfServer(s), hostOf(index), bytesOf(s),
                            [this, index, s, life, then, slice = std::move(slice)] {
                              if (!isThere(index, life)) return;
                              group(index).slices[static_cast<std::size_t>(s)] = slice;
                              if (--group(index).missing == 0) then();
                            });
    });
  }
}

void ExchangeSimulation::beginOwn(int index) {
  Group& own = group(index);
  own.own = makeOwn_();
  float* at = own.own->weights().data();
  for (const Slice& slice : std::exchange(own.slices, {}))
    at = std::ranges::copy(slice.floats->span(), at).out;
  own.own->begin(ownerOf(presenceOf(index).member));
  own.hasNewWeights = true;
  own.freeAt = std::max(own.freeAt, own.orders.front().since);
  start(index);
}

void ExchangeSimulation::start(int index) {
  Group& own = group(index);
  const Order order = own.orders.front();
  own.orders.pop_front();
  addWaiting(index, std::max<VirtualTime>(0, order.since - own.freeAt));
  auto job = std::make_shared<Job>(*own.own, tree_);
  job->work = order.work;
  own.job = job;
  compute(index, job, std::exchange(own.hasNewWeights, false), [this, index] { finishStep(index); });
}

// What the rule wants depends on the loss.
void ExchangeSimulation::finishStep(int index) {
  Group& own = group(index);
  works_.require(own.job);
  meet(index);
}

void ExchangeSimulation::meet(int index) {
  if (!group(index).job->isDue) return conclude(index);
  pull(index, [this, index] { exchange(index); });
}

void ExchangeSimulation::conclude(int index) {
  const std::shared_ptr<Job> job = std::exchange(group(index).job, nullptr);
  const MemberId member = presenceOf(index).member;
  cluster_.queue.after(latency(index, 0), [this, member, job] { finish(member, job->work, job->losses); });
  goOn(index);
}

Workbench::Task ExchangeSimulation::Job::task() {
  Workbench::Task task{.work = work, .isAlone = true, .weights = {own.weights()}, .done = {}};
  task.done = [this](const Workbench::Result& result) {
    losses.assign(result.losses.begin(), result.losses.end());
    const LossSum loss = sumOfLosses(tree, {losses.begin(), losses.end()});
    isDue = own.step(work.step, result.gradients.front().sums, loss.meanLoss());
  };
  return task;
}

void ExchangeSimulation::goOn(int index) {
  group(index).isBusy = false;
  group(index).freeAt = cluster_.queue.now();
  tryStart(index);
}

// ---- with the center

void ExchangeSimulation::exchange(int index) {
  Group& own = group(index);
  const Presence& self = presenceOf(index);
  float* at = center_.data();
  auto delivery = std::make_shared<Delivery>();
  for (const Slice& slice : std::exchange(own.slices, {})) {
    at = std::ranges::copy(slice.floats->span(), at).out;
    delivery->basis.push_back(slice.version);
  }
  own.own->exchange(center_.span(), change_.span());
  own.hasNewWeights = true;
  const std::shared_ptr<Job> job = std::exchange(own.job, nullptr);
  delivery->group = index;
  delivery->life = self.life;
  delivery->member = self.member;
  delivery->work = job->work;
  delivery->losses = std::move(job->losses);
  delivery->missing = own.missing = serverCount();
  beginSending(self.member);
  for (int s = 0; s < serverCount(); ++s) {
    const ArenaRange slice = store(s).slice();
    FloatBuffer& part = delivery->change.emplace_back(store(s).takeBuffer());
    std::ranges::copy(change_.span().subspan(slice.begin, slice.size()), part.data());
    cluster_.network.send(hostOf(index), cluster_.hostOfServer(s), bytesOf(s),
                          [this, s, delivery] { receive(s, delivery); });
  }
}

// The first server hears that the work is finished when all have the change: others tell the worker, who tells it.
void ExchangeSimulation::receive(int s, const std::shared_ptr<Delivery>& delivery) {
  const int index = delivery->group;
  const Step basis = delivery->basis[static_cast<std::size_t>(s)];
  if (s == 0) ++cluster_.counts.staleness[std::max<Step>(0, store(s).version() - basis)];
  store(s).push({.step = delivery->work.step, .node = 0, .basis = basis},
                std::move(delivery->change[static_cast<std::size_t>(s)]));
  const VirtualTime now = cluster_.queue.now();
  const VirtualTime word = s == 0 ? 0 : latency(index, s) + latency(index, 0);
  delivery->confirmedAt = std::max(delivery->confirmedAt, now + word);
  if (--delivery->missing == 0) {
    cluster_.queue.at(delivery->confirmedAt, [this, delivery] {
      finish(delivery->member, delivery->work, delivery->losses);
      endSending(delivery->group, delivery->member, delivery->life);
    });
  }
  cluster_.queue.after(latency(index, s), [this, index, life = delivery->life] {
    if (isThere(index, life) && --group(index).missing == 0) goOn(index);
  });
}

}  // namespace cohort
