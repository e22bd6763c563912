// What comes in over all links of a server, for the one thread that deals with it. Thread-safe. Private to center.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "center/center.h"

namespace cohort {

struct Incoming {
  enum class Kind { Opened, Received, Closed, Halt, Stop };
  Kind kind = Kind::Received;
  LinkId link = 0;
  std::shared_ptr<Link> opened{};
  CenterMessage message{};
};

class Inbox {
 public:
  void put(Incoming incoming) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(incoming));
    }
    ready_.notify_one();
  }
  Incoming take() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return !queue_.empty(); });
    return takeFirst();
  }
  // Nothing where nothing comes in this time.
  std::optional<Incoming> takeWithin(std::chrono::duration<double> limit) {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, limit, [this] { return !queue_.empty(); })) return std::nullopt;
    return takeFirst();
  }
  LinkId newLink() {
    const std::lock_guard lock(mutex_);
    return ++lastLink_;
  }

 private:
  Incoming takeFirst() {
    Incoming first = std::move(queue_.front());
    queue_.pop_front();
    return first;
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Incoming> queue_;
  LinkId lastLink_ = 0;
};

}  // namespace cohort
