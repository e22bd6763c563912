// For tests only: which tags messages have.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/transport.h"

namespace cohort {

// The least and the largest tag; may be shared by several workers. Look when these are done.
class NotedTags {
 public:
  void note(int tag) {
    const std::lock_guard lock(mutex_);
    least_ = std::min(least_, tag);
    largest_ = std::max(largest_, tag);
  }
  int least() const { return least_; }
  int largest() const { return largest_; }

 private:
  std::mutex mutex_;
  int least_ = std::numeric_limits<int>::max();
  int largest_ = -1;
};

// Hands everything on, and notes the tags.
class NotingTransport : public Transport {
 public:
  NotingTransport(std::unique_ptr<Transport> inner, NotedTags& tags)
      : inner_(std::move(inner)), tags_(tags) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  MessageId add(const Message& message) override {
    tags_.note(message.tag);
    return inner_->add(message);
  }
  void remove(MessageId id) override { inner_->remove(id); }
  void start(MessageId id) override { inner_->start(id); }
  void poll(std::vector<MessageId>& done) override { inner_->poll(done); }
  void withdraw() override { inner_->withdraw(); }

 private:
  std::unique_ptr<Transport> inner_;
  NotedTags& tags_;
};

}  // namespace cohort
