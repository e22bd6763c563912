#include "center/grpc_stream.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include <grpc/support/log.h>

namespace cohort {

void silenceGrpc() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

void Poller::run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    (void)handedOver_.load(std::memory_order_acquire);
    const auto ended = static_cast<Tag*>(tag)->ended;  // the tag may go with it
    ended(ok);
  }
}

void Stream::send(const wire::Envelope& head, std::span<const float> floats,
                  std::shared_ptr<const void> keep) {
  Unsent next{.bytes = toBytes(head, floats, std::move(keep))};
  next.headBytes = next.bytes.Length() - floats.size_bytes();
  const std::lock_guard lock(mutex_);
  if (isEnding_) return;
  unsentHeadBytes_ += next.headBytes;
  toSend_.push_back(std::move(next));
  if (toSend_.size() > limits_.messages || unsentHeadBytes_ > limits_.headBytes) return cutNow();
  if (isRunning_ && toSend_.size() == 1) startWrite(toSend_.front().bytes, wrote_);
}

void Stream::end() {
  const std::lock_guard lock(mutex_);
  isEnding_ = true;
  finishIfIdle();
}

void Stream::cut() {
  const std::lock_guard lock(mutex_);
  cutNow();
}

void Stream::cutNow() {
  if (!self_ || isFinished_) return;
  isEnding_ = true;
  // gRPC has the first one, and says so when it has done with it.
  const std::size_t kept = isRunning_ && isSending() ? 1 : 0;
  toSend_.resize(kept);
  cancel();
  finishIfIdle();
}

void Stream::begin() {
  const std::lock_guard lock(mutex_);
  isRunning_ = true;
  isReading_ = true;
  startRead(received_, read_);
  if (!toSend_.empty()) startWrite(toSend_.front().bytes, wrote_);
}

void Stream::onRead(bool ok) {
  auto held = std::make_shared<Held>();
  std::optional<CenterMessage> message;
  if (ok) {
    received_.Dump(&held->slices);
    try {
      message = toMessage(held);
    } catch (const std::exception&) {  // no memory for what it would be: it is none either
      message.reset();
    }
  }
  received_.Clear();
  if (message) {
    held->cost = costOf(*message);
    {
      const std::lock_guard lock(mutex_);
      unread_ += held->cost;
      held->release = [self = self_](std::size_t cost) { self->released(cost); };
    }
    held.reset();
    hear(std::move(*message));
  }
  {
    const std::lock_guard lock(mutex_);
    isReading_ = false;
    if (message) {
      readOn();
    } else {
      isEnding_ = true;
      finishIfIdle();
    }
  }
  leaveIfDone();
}

void Stream::released(std::size_t cost) {
  const std::lock_guard lock(mutex_);
  unread_ -= cost;
  readOn();
}

void Stream::readOn() {
  if (isReading_ || isFinishing_) return;
  if (isEnding_ && !readsToTheEnd()) return finishIfIdle();
  if (unread_ >= kMostUnread) return;
  isReading_ = true;
  startRead(received_, read_);
}

void Stream::onWrote(bool ok) {
  const std::lock_guard lock(mutex_);
  unsentHeadBytes_ -= toSend_.front().headBytes;
  toSend_.pop_front();
  if (!ok) {
    toSend_.clear();
    isEnding_ = true;
  }
  if (!toSend_.empty()) return startWrite(toSend_.front().bytes, wrote_);
  if (isEnding_) finishIfIdle();
}

void Stream::onFinished() {
  {
    const std::lock_guard lock(mutex_);
    isFinished_ = true;
  }
  leaveIfDone();
}

void Stream::leaveIfDone() {
  std::shared_ptr<Stream> last;
  {
    const std::lock_guard lock(mutex_);
    if (!isFinished_ || isReading_) return;
    last = std::move(self_);
  }
  if (last) over();
}

void Stream::forget() {
  {
    const std::lock_guard lock(mutex_);
    isEnding_ = isFinishing_ = isFinished_ = true;
  }
  leaveIfDone();
}

}  // namespace cohort
