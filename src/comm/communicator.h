// A worker's way to the others.
//
// One thread of its own does everything that the transport does, so that lanes never wait for a message: they ask, and are
// called back. That thread looks, sleeps briefly, and looks again: a core that waits awake is a core that does not compute.
// While somebody waits urgently (see `waitUntil`) it looks without pauses.
//
// Alone (`Communicator()`), a worker has no such thread, and everything below returns at once.
//
// Thread safety: everything from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/transport.h"

namespace cohort {

class Communicator {
 public:
  struct Transfer;
  // After so many seconds a wait ends with a PeerError.
  static constexpr double kDefaultPatience = 600;
  static constexpr double kForEver = 1e9;

  Communicator();
  explicit Communicator(std::unique_ptr<Transport> transport, double patience = kDefaultPatience);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool isFirst() const { return rank_ == 0; }

  // A transfer that can be started again and again, while the communicator lives. `done` is called on the communication
  // thread: it is quick, may start transfers, and does not wait. Tags are below kTags; those above are
  // the channels' (channel.h).
  static constexpr int kTags = 1 << 22;
  static constexpr int kAllTags = kTags + 16;
  Transfer& addSend(int to, int tag, std::span<const std::byte> memory, std::function<void()> done = {});
  Transfer& addReceive(int from, int tag, std::span<std::byte> memory, std::function<void()> done = {});
  // Not while it is on its way. Allocates nothing.
  void start(Transfer& transfer);
  // Returns when `ready`, which is looked at after every transfer that is done, by the communication thread too. PeerError after the patience is over; the
  // sentence is "worker 1 waited 60 s for WHAT". What stopped the communication thread is thrown here again.
  // Urgent: nothing else can be done meanwhile, so that the communication thread may use this core.
  enum class Wait { Patient, Urgent };
  void waitUntil(const std::function<bool()>& ready, const std::function<std::string()>& what,
                 Wait wait = Wait::Urgent);

  // Ends the communication thread, for good: nothing that is under way touches its memory any more, and who waits gets a
  // PeerError. For a worker that cannot go on, before what it had goes.
  void halt();
  // The same by somebody who watches, and knows why nobody will come: who waits gets a PeerError with this sentence.
  void giveUp(const std::string& sentence);

  // What somebody is waiting for just now, "worker 1: its part of step 12" where it is one worker's; empty: nobody waits.
  std::string waitingFor();

  // Processor time that the communication thread has used.
  double busySeconds();
  // How many messages were sent or received.
  std::uint64_t doneMessages() const { return doneMessages_.load(std::memory_order_relaxed); }
  // Of the messages that it has begun to send.
  std::int64_t sentBytes() const { return sentBytes_.load(std::memory_order_relaxed); }

  // One message that is sent or received once; returns when it is done.
  void transferNow(const Message& message, const std::string& what);

 private:
  Transfer& add(const Message& message, std::function<void()> done);
  void serve();
  void startAsked();
  void pause();
  bool isUrgent() const;  // under the lock

  int rank_ = 0;
  int size_ = 1;
  double patience_ = kDefaultPatience;
  std::unique_ptr<Transport> transport_;  // used by the communication thread alone, once that runs

  std::mutex mutex_;
  std::condition_variable wake_;     // for the communication thread: there is something to do
  std::condition_variable changed_;  // for who waits: something is done
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<Transfer*> asked_;  // to be started
  struct Waiting {
    const std::function<bool()>& ready;
    const std::function<std::string()>& what;
    bool isUrgent = false;
  };
  std::vector<const Waiting*> waiting_;
  bool stop_ = false;
  bool ended_ = false;  // the communication thread, by a failure or as told
  std::exception_ptr failure_;

  // The communication thread's alone.
  std::vector<Transfer*> starting_;
  std::vector<Transfer*> byMessage_;
  std::vector<MessageId> done_;
  int underWay_ = 0;
  std::chrono::microseconds nap_{0};

  std::atomic<std::int64_t> sentBytes_ = 0;
  std::atomic<std::uint64_t> doneMessages_ = 0;
  std::thread thread_;
};

}  // namespace cohort
