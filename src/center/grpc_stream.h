// What both ends of a stream over gRPC share: its order of reads and writes, its limits, its end. Private to center.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

#include <grpcpp/completion_queue.h>

#include "center/grpc_frame.h"
#include "center/link.h"

namespace cohort {

inline constexpr const char* kMethod = "/cohort.Center/Connect";
// A peer that does not answer for so long is gone; a cut network sends no word of it.
inline constexpr int kPingMilliseconds = 5000;
inline constexpr int kPongMilliseconds = 10000;

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
  // No stream is there any more: gRPC aborts where something is begun on a queue that was shut down.
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
  void run();

  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::atomic<std::uint64_t> handedOver_ = 0;
  std::thread thread_;
};

// What waits to be sent on one stream. Floats lie in memory that others share, so their bytes are not counted.
struct UnsentLimits {
  std::size_t messages = std::numeric_limits<std::size_t>::max();
  std::size_t headBytes = std::numeric_limits<std::size_t>::max();
};

// Both ends of a stream: one read and one write at a time, then the finish. Thread-safe. The object lives until gRPC has answered
// all of them, whatever their order: a read may end after the finish.
class Stream {
 public:
  // Of one link, read and not yet dealt with (see costOf): beyond this nothing more is read.
  static constexpr std::size_t kMostUnread = std::size_t{32} << 20;

  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Beyond the limits the stream is cut.
  void send(const wire::Envelope& head, std::span<const float> floats, std::shared_ptr<const void> keep);
  // Ends when all was sent.
  void end();
  // Ends now; what waits to be sent is lost.
  void cut();

 protected:
  explicit Stream(const UnsentLimits& limits = {}) : limits_(limits) {}

  // Before anything is begun.
  void keepAlive(std::shared_ptr<Stream> self) { self_ = std::move(self); }
  std::shared_ptr<Stream> self() const { return self_; }
  // The call is there: from now on both ways are open.
  void begin();
  // gRPC has answered the finish.
  void onFinished();
  // Where no call has come about.
  void forget();

  virtual void hear(CenterMessage message) = 0;
  virtual void startRead(grpc::ByteBuffer& bytes, Tag& tag) = 0;
  virtual void startWrite(const grpc::ByteBuffer& bytes, Tag& tag) = 0;
  // Under the mutex, at any time: all that is under way ends soon.
  virtual void cancel() = 0;
  // Under the mutex, when nothing may be sent any more.
  virtual void finishIfIdle() = 0;
  // A worker's end reads on when it has ended: the server's last word comes behind all others.
  virtual bool readsToTheEnd() const = 0;
  // The last call: nothing is under way any more.
  virtual void over() = 0;

  bool isSending() const { return !toSend_.empty(); }

  std::mutex mutex_;
  bool isRunning_ = false;
  bool isReading_ = false;
  bool isEnding_ = false;
  bool isFinishing_ = false;  // nothing is begun any more

 private:
  struct Unsent {
    grpc::ByteBuffer bytes;
    std::size_t headBytes = 0;
  };

  void onRead(bool ok);
  void released(std::size_t cost);
  void readOn();
  void onWrote(bool ok);
  void cutNow();
  void leaveIfDone();

  UnsentLimits limits_;
  std::shared_ptr<Stream> self_;  // until gRPC has done with it
  bool isFinished_ = false;
  Tag read_{[this](bool ok) { onRead(ok); }};
  Tag wrote_{[this](bool ok) { onWrote(ok); }};
  grpc::ByteBuffer received_;
  std::deque<Unsent> toSend_;  // the first is being sent
  std::size_t unsentHeadBytes_ = 0;
  std::size_t unread_ = 0;
};

// The link that a user of a stream has.
template <class Of>
class StreamLink : public Link {
 public:
  explicit StreamLink(std::shared_ptr<Of> stream) : stream_(std::move(stream)) {}

  void send(const wire::Envelope& head, std::span<const float> floats,
            std::shared_ptr<const void> keep) override {
    stream_->send(head, floats, std::move(keep));
  }
  void close() override { stream_->end(); }
  void cut() override { stream_->cut(); }

 protected:
  std::shared_ptr<Of> stream_;
};

}  // namespace cohort
