#include "data/prefetch.h"

#include <numeric>
#include <utility>

#include "base/error.h"

namespace cohort {
namespace {

// One in use, and enough ahead that an expensive sample now and then is not noticed.
constexpr std::size_t kRing = 4;

}  // namespace

Prefetcher::LaneGrains Prefetcher::range(GrainIndex first, GrainIndex last) {
  LaneGrains grains(static_cast<std::size_t>(last - first));
  std::iota(grains.begin(), grains.end(), first);
  return grains;
}

Prefetcher::Prefetcher(const BatchSource& source, std::vector<LaneGrains> lanes, Step firstStep, int threads)
    : source_(source), firstStep_(firstStep) {
  for (LaneGrains& grains : lanes) addLane(std::move(grains), threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

Prefetcher::Prefetcher(const BatchSource& source, int lanes, int threads) : source_(source) {
  for (int i = 0; i < lanes; ++i) addLane({}, threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

void Prefetcher::addLane(LaneGrains everyStep, int threads) {
  Lane& lane = lanes_.emplace_back();
  lane.everyStep = std::move(everyStep);
  lane.ring.resize(threads > 0 ? kRing : 1);
  for (Slot& slot : lane.ring) slot.buffer = std::make_unique<GrainBuffer>(source_.makeBuffer());
}

Prefetcher::~Prefetcher() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  roomMade_.notify_all();
}

void Prefetcher::plan(Step step, const std::vector<LaneGrains>& lanes) {
  {
    const std::scoped_lock lock(mutex_);
    COHORT_CHECK(lanes.size() == lanes_.size(), "every lane is told what it has");
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      for (const GrainIndex grain : lanes[i]) lanes_[i].upcoming.push_back({step, grain});
    }
  }
  roomMade_.notify_all();
}

Batch Prefetcher::next(int laneIndex) {
  Lane& lane = lanes_[static_cast<std::size_t>(laneIndex)];
  std::unique_lock lock(mutex_);
  if (lane.taken > 0) {
    lane.ring[static_cast<std::size_t>(lane.taken - 1) % lane.ring.size()].state = State::Empty;
    if (!threads_.empty()) roomMade_.notify_one();
  }
  Slot& slot = lane.ring[static_cast<std::size_t>(lane.taken) % lane.ring.size()];
  ++lane.taken;
  if (slot.state == State::Empty) {
    COHORT_CHECK(hasMore(lane), "a lane takes what was planned");
    Item item;
    begin(lane, item);
    lock.unlock();
    fill(item, slot);
    lock.lock();
    slot.state = State::Full;
  } else {
    slotFilled_.wait(lock, [&] { return slot.state == State::Full; });
  }
  if (slot.failure) std::rethrow_exception(slot.failure);
  return slot.buffer->batch();
}

Prefetcher::Slot& Prefetcher::begin(Lane& lane, Item& item) const {
  const std::int64_t number = lane.begun++;
  if (!lane.everyStep.empty()) {
    const auto perStep = static_cast<std::int64_t>(lane.everyStep.size());
    item = {firstStep_ + number / perStep, lane.everyStep[static_cast<std::size_t>(number % perStep)]};
  } else {
    item = lane.upcoming.front();
    lane.upcoming.pop_front();
  }
  Slot& slot = lane.ring[static_cast<std::size_t>(number) % lane.ring.size()];
  slot.state = State::Filling;
  return slot;
}

void Prefetcher::fill(const Item& item, Slot& slot) const {
  try {
    source_.fill(item.step, item.grain, *slot.buffer);
  } catch (...) {
    slot.failure = std::current_exception();
  }
}

Prefetcher::Lane* Prefetcher::neediest() {
  Lane* found = nullptr;
  for (Lane& lane : lanes_) {
    const bool hasRoom =
        lane.ring[static_cast<std::size_t>(lane.begun) % lane.ring.size()].state == State::Empty;
    if (!hasRoom || !hasMore(lane)) continue;
    if (found == nullptr || lane.begun - lane.taken < found->begun - found->taken) found = &lane;
  }
  return found;
}

void Prefetcher::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Lane* lane = nullptr;
    roomMade_.wait(lock, [&] { return stop_ || (lane = neediest()) != nullptr; });
    if (stop_) return;
    Item item;
    Slot& slot = begin(*lane, item);
    lock.unlock();
    fill(item, slot);
    lock.lock();
    slot.state = State::Full;
    slotFilled_.notify_all();
  }
}

}  // namespace cohort
