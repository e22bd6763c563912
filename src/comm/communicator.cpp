#include "comm/communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include "base/crash_point.h"
#include "base/error.h"

namespace cohort {
namespace {

// Between two looks at messages under way, while nobody waits for them: short ones after something happened, then longer
// and longer ones. A step of seconds has its receives under way all the time, and every look takes a core from a lane.
constexpr std::chrono::microseconds kNap{50};
constexpr std::chrono::microseconds kLongNap{2000};

// Transfers that are used once, at the same time.
constexpr std::size_t kSpare = 8;

// Senders only read.
std::span<std::byte> asMemory(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()),
          bytes.size()};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace

struct Communicator::Transfer {
  Message message;
  std::function<void()> done;
  bool isOnce = false;
  MessageId id = -1;  // the communication thread's alone
};

Communicator::Communicator() = default;

Communicator::Communicator(std::unique_ptr<Transport> transport, double patience)
    : rank_(transport->rank()),
      size_(transport->size()),
      patience_(patience),
      transport_(std::move(transport)) {
  asked_.reserve(kSpare);
  if (size_ > 1) thread_ = std::thread([this] { serve(); });
}

Communicator::~Communicator() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Communicator::Transfer& Communicator::add(const Message& message, std::function<void()> done) {
  COHORT_CHECK(message.peer >= 0 && message.peer < size_ && message.peer != rank_,
               "a transfer is between two workers");
  auto transfer = std::make_unique<Transfer>();
  transfer->message = message;
  transfer->done = std::move(done);
  const std::lock_guard lock(mutex_);
  transfers_.push_back(std::move(transfer));
  asked_.reserve(transfers_.size() + kSpare);
  return *transfers_.back();
}

Communicator::Transfer& Communicator::addSend(int to, int tag, std::span<const std::byte> memory,
                                              std::function<void()> done) {
  COHORT_CHECK(tag >= 0 && tag < kTags, "a user's tag");
  return add({Message::Direction::Send, to, tag, asMemory(memory)}, std::move(done));
}

Communicator::Transfer& Communicator::addReceive(int from, int tag, std::span<std::byte> memory,
                                                 std::function<void()> done) {
  COHORT_CHECK(tag >= 0 && tag < kTags, "a user's tag");
  return add({Message::Direction::Receive, from, tag, memory}, std::move(done));
}

void Communicator::start(Transfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(&transfer);
  }
  wake_.notify_one();
}

void Communicator::waitUntil(const std::function<bool()>& ready, const std::function<std::string()>& what,
                             Wait wait) {
  if (size_ == 1) {
    COHORT_CHECK(ready(), "a worker that is alone waits for nobody");
    return;
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_);
  const Waiting waiting{.ready = ready, .what = what, .isUrgent = wait == Wait::Urgent};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&waiting);
  wake_.notify_one();
  const bool isReady = changed_.wait_until(lock, limit, [&] { return failure_ != nullptr || ready(); });
  std::erase(waiting_, &waiting);
  if (!isReady) {
    failure_ = std::make_exception_ptr(
        PeerError(fmt::format("worker {} waited {:g} s for {}", rank_, patience_, what())));
    wake_.notify_one();
  }
  if (failure_) {
    // The memory of what is under way may be gone soon: nobody moves it any more.
    changed_.wait(lock, [this] { return ended_; });
    std::rethrow_exception(failure_);
  }
}

void Communicator::halt() {
  giveUp(fmt::format("worker {} has failed", rank_));
}

void Communicator::giveUp(const std::string& sentence) {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  if (!failure_) failure_ = std::make_exception_ptr(PeerError(sentence));
  wake_.notify_one();
  changed_.notify_all();
  changed_.wait(lock, [this] { return ended_; });
}

std::string Communicator::waitingFor() {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() ? "" : waiting_.front()->what();
}

double Communicator::busySeconds() {
  if (!thread_.joinable()) return 0;
  clockid_t clock{};
  timespec time{};
  if (::pthread_getcpuclockid(thread_.native_handle(), &clock) != 0 || ::clock_gettime(clock, &time) != 0)
    return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// ---- the communication thread

void Communicator::serve() {
  try {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stop_ || failure_ || underWay_ > 0 || !asked_.empty(); });
        if (stop_ || failure_) break;
        starting_.assign(asked_.begin(), asked_.end());
        asked_.clear();
      }
      startAsked();
      done_.clear();
      transport_->poll(done_);
      for (const MessageId id : done_) {
        Transfer& transfer = *byMessage_[static_cast<std::size_t>(id)];
        --underWay_;
        if (transfer.isOnce) {
          transport_->remove(id);
          byMessage_[static_cast<std::size_t>(id)] = nullptr;
        }
        if (transfer.done) transfer.done();
      }
      if (!done_.empty()) doneMessages_.fetch_add(done_.size(), std::memory_order_relaxed);
      pause();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (failure_) transport_->withdraw();
  ended_ = true;
  changed_.notify_all();
}

void Communicator::startAsked() {
  for (Transfer* transfer : starting_) {
    const bool isSend = transfer->message.direction == Message::Direction::Send;
    if (isSend && lossPoint("send")) continue;
    if (transfer->id < 0) {
      transfer->id = transport_->add(transfer->message);
      byMessage_.resize(std::max(byMessage_.size(), static_cast<std::size_t>(transfer->id) + 1));
      byMessage_[static_cast<std::size_t>(transfer->id)] = transfer;
    }
    transport_->start(transfer->id);
    if (isSend) {
      sentBytes_.fetch_add(static_cast<std::int64_t>(transfer->message.memory.size()),
                           std::memory_order_relaxed);
    }
    ++underWay_;
  }
}

bool Communicator::isUrgent() const {
  return std::ranges::any_of(waiting_, &Waiting::isUrgent);
}

// After a look: tells those who need not wait any longer, or lets others have the core.
void Communicator::pause() {
  std::unique_lock lock(mutex_);
  // Who is not ready yet would only take the core.
  if (!done_.empty() && std::ranges::any_of(waiting_, [](const Waiting* w) { return w->ready(); })) {
    changed_.notify_all();
  }
  if (!done_.empty() || !starting_.empty()) nap_ = kNap;
  if (!done_.empty() || !asked_.empty()) return;
  if (isUrgent()) {
    lock.unlock();
    ::sched_yield();
    return;
  }
  wake_.wait_for(lock, nap_, [this] { return stop_ || failure_ || !asked_.empty() || isUrgent(); });
  nap_ = std::min(2 * nap_, kLongNap);
}

// ---- between steps

void Communicator::transferNow(const Message& message, const std::string& what) {
  std::atomic<bool> isDone = false;
  Transfer transfer{.message = message, .done = [&] { isDone = true; }, .isOnce = true};
  start(transfer);
  waitUntil([&] { return isDone.load(); }, [&] { return fmt::format("worker {}: {}", message.peer, what); },
            Wait::Patient);
}

}  // namespace cohort
