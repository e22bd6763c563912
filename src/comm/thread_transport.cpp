#include "comm/thread_transport.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace cohort {

class ThreadHub::Endpoint : public Transport {
 public:
  Endpoint(ThreadHub& hub, int rank)
      : hub_(hub), rank_(rank), random_(hub.disorder_ + 31U * static_cast<unsigned>(rank)) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_.size_; }

  MessageId add(const Message& message) override {
    messages_.push_back(message);
    return static_cast<MessageId>(messages_.size()) - 1;
  }
  void remove(MessageId) override {}

  void start(MessageId id) override {
    const Message& message = messages_[static_cast<std::size_t>(id)];
    const bool isSend = message.direction == Message::Direction::Send;
    hub_.post(isSend ? Route(rank_, message.peer, message.tag) : Route(message.peer, rank_, message.tag),
              isSend, {this, id, message.memory});
  }

  void poll(std::vector<MessageId>& done) override {
    const std::lock_guard lock(hub_.mutex_);
    if (hub_.disorder_ == 0) {
      done.insert(done.end(), done_.begin(), done_.end());
      done_.clear();
      return;
    }
    std::ranges::shuffle(done_, random_);
    const std::size_t count = done_.empty() ? 0 : random_() % (done_.size() + 1);
    done.insert(done.end(), done_.end() - static_cast<std::ptrdiff_t>(count), done_.end());
    done_.resize(done_.size() - count);
  }

 private:
  friend class ThreadHub;

  ThreadHub& hub_;
  int rank_;
  std::mt19937 random_;
  std::vector<Message> messages_;
  std::vector<MessageId> done_;  // under the hub's mutex
};

ThreadHub::ThreadHub(int size, std::uint32_t disorder) : size_(size), disorder_(disorder) {}

std::unique_ptr<Transport> ThreadHub::transport(int rank) {
  return std::make_unique<Endpoint>(*this, rank);
}

void ThreadHub::post(const Route& route, bool isSend, const Posted& posted) {
  const std::lock_guard lock(mutex_);
  (isSend ? sends_ : receives_)[route].push_back(posted);
  std::deque<Posted>& from = sends_[route];
  std::deque<Posted>& to = receives_[route];
  if (from.empty() || to.empty()) return;
  COHORT_CHECK(from.front().memory.size() == to.front().memory.size(),
               "a message has another size than its receiver expects");
  std::ranges::copy(from.front().memory, to.front().memory.begin());
  for (std::deque<Posted>* side : {&from, &to}) {
    side->front().endpoint->done_.push_back(side->front().id);
    side->pop_front();
  }
}

}  // namespace cohort
