#include "train/lanes.h"

#include <utility>

#include <pthread.h>
#include <sched.h>

#include "engine/executor.h"

namespace cohort {
namespace {

// About 20 microseconds of waiting awake before sleeping in the kernel.
constexpr int kSpins = 1000;

template <class Value>
void waitWhileEqual(const std::atomic<Value>& value, Value old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Lanes::Lanes(int count, std::vector<int> cores) : count_(count), cores_(std::move(cores)) {
  singleThreadedKernels();
  for (int lane = 1; lane < count; ++lane) {
    threads_.emplace_back([this, lane] { serve(lane); });
  }
}

Lanes::~Lanes() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

// Where it is refused, the system places the lane.
void Lanes::pin(int lane) const {
  if (!isPinned()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cores_[static_cast<std::size_t>(lane)]), &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

void Lanes::serve(int lane) {
  singleThreadedKernels();
  pin(lane);
  for (std::uint32_t seen = 0;;) {
    waitWhileEqual(round_, seen);
    ++seen;
    if (stop_) return;
    runOne(lane);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_all();
  }
}

void Lanes::runOne(int lane) {
  try {
    (*work_)(lane);
  } catch (...) {
    const std::lock_guard lock(failureMutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

// Lane 0 is the caller's thread, which is pinned while it works only: threads that it makes later take its cores over.
void Lanes::runPinned() {
  cpu_set_t before;
  const bool isKnown = isPinned() && ::pthread_getaffinity_np(::pthread_self(), sizeof before, &before) == 0;
  if (isKnown) pin(0);
  runOne(0);
  if (isKnown) ::pthread_setaffinity_np(::pthread_self(), sizeof before, &before);
}

void Lanes::run(const std::function<void(int lane)>& work) {
  work_ = &work;
  busy_.store(count_ - 1, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  runPinned();
  for (int busy = busy_.load(std::memory_order_acquire); busy != 0;
       busy = busy_.load(std::memory_order_acquire)) {
    waitWhileEqual(busy_, busy);
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Lanes::meet() {
  const std::uint32_t meeting = meetings_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    meetings_.fetch_add(1, std::memory_order_release);
    meetings_.notify_all();
  } else {
    waitWhileEqual(meetings_, meeting);
  }
}

}  // namespace cohort
