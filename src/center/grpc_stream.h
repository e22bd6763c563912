// What both ends of a stream over gRPC share. Private to center.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <grpcpp/completion_queue.h>

#include "center/grpc_frame.h"

namespace cohort {

inline constexpr const char* kMethod = "/cohort.Center/Connect";
// A peer that does not answer for so long is gone; a cut network sends no word of it.
inline constexpr int kPingMilliseconds = 5000;
inline constexpr int kPongMilliseconds = 10000;

// Bytes of one link that were read and not yet dealt with.
inline constexpr std::size_t kMostUnread = std::size_t{32} << 20;

// gRPC writes lines of its own to stderr for each failed handshake; what concerns people is said in errors. With its variable
// for that (GRPC_VERBOSITY) they are there again.
void silenceGrpc();

// What gRPC says when something that was begun has ended.
struct Tag {
  std::function<void(bool ok)> ended;
};

// A thread that hears of everything that ends. gRPC's own threads for callbacks come and go with the last connection, and 1.51
// frees their queue twice now and then.
class Poller {
 public:
  explicit Poller(std::unique_ptr<grpc::CompletionQueue> queue)
      : queue_(std::move(queue)), thread_([this] { run(); }) {}
  // All that was begun has ended, or ends now.
  ~Poller() {
    queue_->Shutdown();
    thread_.join();
  }
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  grpc::CompletionQueue& queue() { return *queue_; }
  // Before the first call with tags that another thread has made: this one sees them whole. gRPC orders that too, but where no
  // sanitizer sees it.
  void handOver() { handedOver_.fetch_add(1, std::memory_order_release); }

 private:
  void run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      (void)handedOver_.load(std::memory_order_acquire);
      const auto ended = static_cast<Tag*>(tag)->ended;  // the tag may go with it
      ended(ok);
    }
  }

  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::atomic<std::uint64_t> handedOver_ = 0;
  std::thread thread_;
};

// Both ends of a stream: one read and one write at a time, then the finish. The object lives until that has ended.
class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void send(grpc::ByteBuffer bytes) {
    const std::lock_guard lock(mutex_);
    if (isEnding_) return;
    toSend_.push_back(std::move(bytes));
    if (isRunning_ && toSend_.size() == 1) startWrite(toSend_.front(), wrote_);
  }

  // Ends when all was sent.
  void end() {
    const std::lock_guard lock(mutex_);
    isEnding_ = true;
    finishIfIdle();
  }

 protected:
  Stream() = default;

  // The call is there: from now on both ways are open.
  void begin() {
    const std::lock_guard lock(mutex_);
    isRunning_ = true;
    isReading_ = true;
    startRead(received_, read_);
    if (!toSend_.empty()) startWrite(toSend_.front(), wrote_);
  }

  virtual void hear(Message message) = 0;
  virtual void startRead(grpc::ByteBuffer& bytes, Tag& tag) = 0;
  virtual void startWrite(const grpc::ByteBuffer& bytes, Tag& tag) = 0;
  // Under the mutex, when nothing is being sent any more.
  virtual void finishIfIdle() = 0;
  // A worker's end reads on when it has ended: the server's last word comes behind all others.
  virtual bool readsToTheEnd() const = 0;

  bool isSending() const { return !toSend_.empty(); }

  std::mutex mutex_;
  std::shared_ptr<Stream> self_;  // until gRPC has done with it
  bool isRunning_ = false;
  bool isReading_ = false;
  bool isEnding_ = false;

 private:
  void onRead(bool ok) {
    auto held = std::make_shared<Held>();
    std::optional<Message> message;
    if (ok) {
      received_.Dump(&held->slices);
      held->size = received_.Length();
      message = toMessage(held);
    }
    if (!message) {
      const std::lock_guard lock(mutex_);
      isReading_ = false;
      isEnding_ = true;
      return finishIfIdle();
    }
    {
      const std::lock_guard lock(mutex_);
      unread_ += held->size;
      held->release = [self = self_](std::size_t size) { self->released(size); };
    }
    held.reset();
    hear(std::move(*message));
    const std::lock_guard lock(mutex_);
    isReading_ = false;
    readOn();
  }

  void released(std::size_t size) {
    const std::lock_guard lock(mutex_);
    unread_ -= size;
    readOn();
  }

  void readOn() {
    if (isReading_ || !self_) return;
    if (isEnding_ && !readsToTheEnd()) return finishIfIdle();
    if (unread_ >= kMostUnread) return;
    isReading_ = true;
    startRead(received_, read_);
  }

  void onWrote(bool ok) {
    const std::lock_guard lock(mutex_);
    toSend_.pop_front();
    if (!ok) {
      toSend_.clear();
      isEnding_ = true;
    }
    if (!toSend_.empty()) return startWrite(toSend_.front(), wrote_);
    if (isEnding_) finishIfIdle();
  }

  Tag read_{[this](bool ok) { onRead(ok); }};
  Tag wrote_{[this](bool ok) { onWrote(ok); }};
  grpc::ByteBuffer received_;
  std::deque<grpc::ByteBuffer> toSend_;  // the first is being sent
  std::size_t unread_ = 0;
};

}  // namespace cohort
