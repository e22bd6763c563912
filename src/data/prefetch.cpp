#include "data/prefetch.h"

#include "base/error.h"

namespace cohort {
namespace {

// One in use, and enough ahead that an expensive sample now and then is not noticed.
constexpr std::size_t kRing = 4;

}  // namespace

Prefetcher::Prefetcher(const BatchSource& source, const std::vector<LaneGrains>& lanes, Step firstStep,
                       int threads)
    : source_(source), firstStep_(firstStep) {
  for (const LaneGrains& grains : lanes) {
    COHORT_CHECK(grains.first < grains.last, "a lane has at least one grain");
    Lane lane{.grains = grains, .ring = std::vector<Slot>(threads > 0 ? kRing : 1)};
    for (Slot& slot : lane.ring) slot.buffer = std::make_unique<GrainBuffer>(source.makeBuffer());
    lanes_.push_back(std::move(lane));
  }
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
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
    std::int64_t number = 0;
    begin(lane, number);
    lock.unlock();
    fill(lane, number, slot);
    lock.lock();
    slot.state = State::Full;
  } else {
    slotFilled_.wait(lock, [&] { return slot.state == State::Full; });
  }
  if (slot.failure) std::rethrow_exception(slot.failure);
  return slot.buffer->batch();
}

Prefetcher::Slot& Prefetcher::begin(Lane& lane, std::int64_t& number) {
  number = lane.begun++;
  Slot& slot = lane.ring[static_cast<std::size_t>(number) % lane.ring.size()];
  slot.state = State::Filling;
  return slot;
}

void Prefetcher::fill(const Lane& lane, std::int64_t number, Slot& slot) {
  const std::int64_t perStep = lane.grains.last - lane.grains.first;
  try {
    source_.fill(firstStep_ + number / perStep, lane.grains.first + static_cast<GrainIndex>(number % perStep),
                 *slot.buffer);
  } catch (...) {
    slot.failure = std::current_exception();
  }
}

Prefetcher::Lane* Prefetcher::neediest() {
  Lane* found = nullptr;
  for (Lane& lane : lanes_) {
    if (lane.ring[static_cast<std::size_t>(lane.begun) % lane.ring.size()].state != State::Empty) continue;
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
    std::int64_t number = 0;
    Slot& slot = begin(*lane, number);
    lock.unlock();
    fill(*lane, number, slot);
    lock.lock();
    slot.state = State::Full;
    slotFilled_.notify_all();
  }
}

}  // namespace cohort
