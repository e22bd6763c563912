#include "train/replay_engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

ReplayEngine::ReplayEngine(const ReplayPlan& plan, const ParameterLayout& layout, std::vector<Compute> desks,
                           Outlets outlets)
    : plan_(plan),
      layout_(layout),
      outlets_(std::move(outlets)),
      timelines_(plan.timelines.size()),
      openings_(plan.openings.size()),
      moments_(plan.moments.size()),
      works_(plan.works.size()),
      workers_(plan.workers.size()),
      desks_(std::move(desks)) {
  for (std::size_t i = 0; i < plan.works.size(); ++i) {
    works_[i].missing = static_cast<int>(plan.works[i].weights.size());
    works_[i].uses = plan.works[i].uses;
  }
  addWaiters();
  for (Compute& desk : desks_)
    threads_.emplace_back([this, &desk](const std::stop_token& stop) { work(desk, stop); });
}

ReplayEngine::~ReplayEngine() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

ArenaRange ReplayEngine::sliceOf(int timeline) const {
  const JournalHead& head = planOf(timeline).journal->head();
  return sliceOfServer(layout_.size(), head.server, head.servers);
}

void ReplayEngine::addWaiters(const std::vector<TimelinePlace>& places, Waiter waiter) {
  for (const TimelinePlace& place : places) {
    waiter.version = place.version;
    timelineOf(place.timeline).waiters.push_back(waiter);
    ++waiter.server;
  }
}

void ReplayEngine::addWaiters() {
  using Kind = Waiter::Kind;
  for (std::size_t i = 0; i < plan_.works.size(); ++i)
    addWaiters(plan_.works[i].weights, {.kind = Kind::Work, .index = static_cast<int>(i)});
  for (std::size_t i = 0; i < plan_.workers.size(); ++i)
    addWaiters(plan_.workers[i].weights, {.kind = Kind::Worker, .index = static_cast<int>(i)});
  for (std::size_t i = 0; i < plan_.timelines.size(); ++i) {
    const ReplayTimeline& timeline = plan_.timelines[i];
    if (!timeline.isNeeded() || timeline.parent < 0) continue;
    addWaiters({{timeline.parent, timeline.begin()}}, {.kind = Kind::Timeline, .index = static_cast<int>(i)});
  }
  for (std::size_t i = 0; i < plan_.openings.size(); ++i)
    addWaiters(plan_.openings[i].origin, {.kind = Kind::Opening, .index = static_cast<int>(i)});
  for (std::size_t i = 0; i < plan_.moments.size(); ++i)
    addWaiters(plan_.moments[i], {.kind = Kind::Moment, .index = static_cast<int>(i)});
  for (Timeline& timeline : timelines_) std::ranges::stable_sort(timeline.waiters, {}, &Waiter::version);
}

ReplayEngine::State ReplayEngine::makeState(int opening) const {
  const CenterSetup& setup = *plan_.openings[static_cast<std::size_t>(opening)].setup;
  State state;
  for (std::size_t i = 0; i <= slotNames(setup.optimizer).size(); ++i) state.emplace_back(layout_.size());
  return state;
}

// ---- timelines

void ReplayEngine::run() {
  for (std::size_t i = 0; i < plan_.openings.size(); ++i) {
    if (!plan_.openings[i].isNeeded || !plan_.openings[i].origin.empty()) continue;
    State state = makeState(static_cast<int>(i));
    outlets_.fill(static_cast<int>(i), state);
    begin(static_cast<int>(i), state);
  }
  for (;;) {
    bool hasMoved = false;
    for (std::size_t i = 0; i < active_.size(); ++i) hasMoved = advance(active_[i]) || hasMoved;
    std::erase_if(active_, [this](int timeline) { return timelineOf(timeline).store == nullptr; });
    if (active_.empty()) break;
    if (hasMoved) continue;
    std::unique_lock lock(mutex_);
    const auto isAnyReady = [this] {
      return std::ranges::any_of(active_, [this](int t) { return isReady(t); });
    };
    changed_.wait(lock, [&] { return failure_ || isAnyReady() || (ready_.empty() && computing_ == 0); });
    if (failure_) std::rethrow_exception(failure_);
    if (!isAnyReady()) break;
  }
  requireDone();
}

// Nobody goes on, and something was not reached: each waits for another.
void ReplayEngine::requireDone() const {
  for (std::size_t i = 0; i < plan_.timelines.size(); ++i) {
    const ReplayTimeline& plan = plan_.timelines[i];
    if (!plan.isNeeded() || timelines_[i].served == timelines_[i].waiters.size()) continue;
    const JournalHead& head = plan.journal->head();
    throw UsageError(
        fmt::format("the journals contradict each other: {} cannot go beyond version {}, since the weights "
                    "of its next update "
                    "come after it",
                    journalName(head.setup.opening, head.server, head.life),
                    timelines_[i].store ? timelines_[i].store->version() : plan.begin()));
  }
}

void ReplayEngine::begin(int opening, const State& state) {
  outlets_.opened(opening, state);
  for (std::size_t i = 0; i < plan_.timelines.size(); ++i) {
    const ReplayTimeline& plan = plan_.timelines[i];
    if (!plan.isNeeded() || plan.opening != opening || plan.parent >= 0) continue;
    const ArenaRange slice = sliceOf(static_cast<int>(i));
    std::vector<std::span<const float>> arenas;
    for (const FloatBuffer& arena : state) arenas.push_back(arena.span().subspan(slice.begin, slice.size()));
    begin(static_cast<int>(i), arenas, plan.begin(), StepSet(plan.begin()));
  }
}

void ReplayEngine::begin(int timeline, std::span<const std::span<const float>> arenas, Step version,
                         StepSet applied) {
  Timeline& begun = timelineOf(timeline);
  begun.store = std::make_unique<ShardStore>(layout_, planOf(timeline).setup(), sliceOf(timeline));
  std::ranges::copy(arenas.front(), begun.store->weights().begin());
  std::size_t next = 1;
  for (const Shard::Slot& slot : begun.store->slots()) std::ranges::copy(arenas[next++], slot.values.begin());
  begun.store->restore(version, std::move(applied));
  active_.push_back(timeline);
  serve(timeline);
}

// All who need the version that it has now.
void ReplayEngine::serve(int timeline) {
  for (;;) {
    Timeline& here = timelineOf(timeline);
    if (here.served == here.waiters.size()) break;
    const Waiter waiter = here.waiters[here.served];
    if (waiter.version != here.store->version()) break;
    ++here.served;
    give(timeline, waiter);
  }
}

void ReplayEngine::give(int timeline, const Waiter& waiter) {
  const auto index = static_cast<std::size_t>(waiter.index);
  ShardStore& store = *timelineOf(timeline).store;
  switch (waiter.kind) {
    case Waiter::Kind::Work:
      return giveWork(timeline, waiter.index);
    case Waiter::Kind::Worker:
      return giveWorker(timeline, waiter.index);
    case Waiter::Kind::Timeline: {
      std::vector<std::span<const float>> arenas{store.weights()};
      for (const Shard::Slot& slot : store.slots()) arenas.emplace_back(slot.values);
      return begin(waiter.index, arenas, store.version(), store.applied());
    }
    case Waiter::Kind::Opening:
      if (!give(timeline, openings_[index], plan_.openings[index].originOpening)) return;
      begin(waiter.index, openings_[index].state);
      openings_[index].state.clear();
      return;
    case Waiter::Kind::Moment:
      if (!give(timeline, moments_[index], plan_.momentOpenings[index])) return;
      outlets_.reached(waiter.index, moments_[index].state);
      moments_[index].state.clear();
  }
}

void ReplayEngine::giveWork(int timeline, int index) {
  Running& work = works_[static_cast<std::size_t>(index)];
  if (isVisit(index)) {
    giveMail(timeline, index);
  } else {
    if (work.weights.size() == 0) work.weights = takeBuffer();
    std::ranges::copy(timelineOf(timeline).store->weights(), work.weights.data() + sliceOf(timeline).begin);
  }
  const std::lock_guard lock(mutex_);
  const bool hasSteps = plan_.works[static_cast<std::size_t>(index)].worker >= 0 && !work.isStepped;
  if (--work.missing > 0 || hasSteps) return;
  ready_.push_back(index);
  changed_.notify_all();
}

void ReplayEngine::giveWorker(int timeline, int index) {
  Worker& worker = workers_[static_cast<std::size_t>(index)];
  const ReplayWorker& plan = plan_.workers[static_cast<std::size_t>(index)];
  if (!worker.own) {
    worker.own = outlets_.makeOwn(plan.opening);
    worker.missing = static_cast<int>(plan.weights.size());
  }
  const ArenaRange slice = sliceOf(timeline);
  std::ranges::copy(timelineOf(timeline).store->weights(), worker.own->weights().data() + slice.begin);
  if (--worker.missing > 0) return;
  worker.own->begin(plan.token);
  const std::lock_guard lock(mutex_);
  beginTurn(plan.works.front());
  changed_.notify_all();
}

// True where that was its last slice.
bool ReplayEngine::give(int timeline, Gathering& gathering, int opening) {
  if (gathering.state.empty()) {
    gathering.state = makeState(opening);
    gathering.missing = plan_.openings[static_cast<std::size_t>(opening)].servers;
  }
  ShardStore& store = *timelineOf(timeline).store;
  const ArenaRange slice = sliceOf(timeline);
  std::ranges::copy(store.weights(), gathering.state.front().data() + slice.begin);
  std::size_t next = 1;
  for (const Shard::Slot& slot : store.slots())
    std::ranges::copy(slot.values, gathering.state[next++].data() + slice.begin);
  return --gathering.missing == 0;
}

// Under the mutex.
bool ReplayEngine::isReady(int timeline) const {
  const ReplayTimeline& plan = planOf(timeline);
  const ShardStore& store = *timelines_[static_cast<std::size_t>(timeline)].store;
  const auto update = static_cast<std::size_t>(store.version() - plan.begin());
  if (update == plan.ends.size()) return false;
  for (std::size_t at = update == 0 ? 0 : plan.ends[update - 1]; at < plan.ends[update]; ++at) {
    if (!works_[static_cast<std::size_t>(plan.works[at])].isDone) return false;
  }
  return true;
}

// False where it could not. One that is at its end goes.
bool ReplayEngine::advance(int timeline) {
  bool hasMoved = false;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (!isReady(timeline)) break;
    }
    const ReplayTimeline& plan = planOf(timeline);
    apply(timeline, static_cast<std::size_t>(timelineOf(timeline).store->version() - plan.begin()));
    hasMoved = true;
    outlets_.progressed(++done_);
    serve(timeline);
  }
  if (timelineOf(timeline).store->version() == planOf(timeline).needed) timelineOf(timeline).store.reset();
  return hasMoved;
}

void ReplayEngine::apply(int timeline, std::size_t index) {
  const ShardStore& store = *timelineOf(timeline).store;
  const Step before = store.version();
  if (applicationOf(planOf(timeline).setup().rule) == Application::Mail) {
    applyVisit(timeline, index);
  } else {
    applyWorks(timeline, index);
  }
  if (store.version() == before + 1) return;
  const JournalHead& head = planOf(timeline).journal->head();
  throw UsageError(fmt::format("the journal {} cannot be: its update of version {} was made before",
                               journalName(head.setup.opening, head.server, head.life), before + 1));
}

void ReplayEngine::applyWorks(int timeline, std::size_t index) {
  const ReplayTimeline& plan = planOf(timeline);
  const JournalUpdate update = (*plan.journal)[index];
  ShardStore& store = *timelineOf(timeline).store;
  const ArenaRange slice = sliceOf(timeline);
  const std::size_t first = index == 0 ? 0 : plan.ends[index - 1];
  for (std::size_t at = first; at < plan.ends[index]; ++at) {
    const Running& work = works_[static_cast<std::size_t>(plan.works[at])];
    for (const Sums& sums : work.sums) {
      FloatBuffer gradient = store.takeBuffer();
      std::ranges::copy(sums.values.span().subspan(slice.begin, slice.size()), gradient.data());
      store.push({.step = update.step, .node = sums.node, .basis = update.basis}, std::move(gradient));
    }
    release(plan.works[at]);
  }
  if (acceptanceOf(plan.setup().rule) == Acceptance::OnCommit) {
    const GrainRange all{0, plan.setup().grains};
    store.commit(update.step, update.grains.empty() ? std::span(&all, 1) : update.grains);
  }
}

// ---- works

FloatBuffer ReplayEngine::takeBuffer() {
  const std::lock_guard lock(mutex_);
  mostBuffers_ = std::max(mostBuffers_, ++buffers_);
  if (free_.empty()) return FloatBuffer(layout_.size());
  FloatBuffer buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void ReplayEngine::giveBuffer(FloatBuffer buffer) {
  constexpr std::size_t kMostFree = 4;
  const std::lock_guard lock(mutex_);
  --buffers_;
  if (free_.size() < kMostFree) free_.push_back(std::move(buffer));
}

void ReplayEngine::release(int index) {
  Running& work = works_[static_cast<std::size_t>(index)];
  if (--work.uses > 0) return;
  for (Sums& sums : work.sums) giveBuffer(std::move(sums.values));
  work.sums.clear();
}

void ReplayEngine::work(Compute& desk, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !ready_.empty(); })) {
    const int index = ready_.front();
    ready_.pop_front();
    ++computing_;
    const bool isStepped = works_[static_cast<std::size_t>(index)].isStepped;
    lock.unlock();
    std::exception_ptr failure;
    try {
      carryOut(desk, index, isStepped);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --computing_;
    if (failure && !failure_) failure_ = failure;
    if (!failure) finish(index);
    changed_.notify_all();
  }
}

void ReplayEngine::carryOut(Compute& desk, int index, bool isStepped) {
  const ReplayWork& plan = plan_.works[static_cast<std::size_t>(index)];
  if (isVisit(index)) return makeVisit(desk, index);
  if (plan.worker >= 0) return isStepped ? exchange(index) : makeSteps(desk, plan);
  Running& work = works_[static_cast<std::size_t>(index)];
  desk(plan.work, work.weights.span(), [&](int node, std::span<const float> values) {
    Sums& sums = work.sums.emplace_back(Sums{node, takeBuffer()});
    std::ranges::copy(values, sums.values.data());
  });
  giveBuffer(std::exchange(work.weights, {}));
}

// Under the mutex: what was carried out, and what may follow.
void ReplayEngine::finish(int index) {
  Running& work = works_[static_cast<std::size_t>(index)];
  const int owner = plan_.works[static_cast<std::size_t>(index)].worker;
  if (owner >= 0 && !std::exchange(work.isStepped, true)) {
    if (work.missing == 0) ready_.push_back(index);
    return;
  }
  work.isDone = true;
  if (owner < 0) return;
  Worker& worker = workers_[static_cast<std::size_t>(owner)];
  const std::vector<int>& works = plan_.workers[static_cast<std::size_t>(owner)].works;
  if (++worker.next < works.size()) {
    beginTurn(works[worker.next]);
  } else {
    worker.own.reset();
  }
}

}  // namespace cohort
