#include "comm/thread_transport.h"

#include <algorithm>
#include <random>

#include "base/error.h"

namespace cohort {

class ThreadHub::Endpoint : public Transport {
 public:
  Endpoint(ThreadHub& hub, int rank)
      : hub_(hub), rank_(rank), random_(hub.disorder_ + 31U * static_cast<unsigned>(rank)) {}
  ~Endpoint() override { hub_.withdraw(*this); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_.mailboxes_.size()); }

  MessageId add(const Message& message) override {
    if (free_.empty()) {
      messages_.push_back(message);
      return static_cast<MessageId>(messages_.size()) - 1;
    }
    const MessageId id = free_.back();
    free_.pop_back();
    messages_[static_cast<std::size_t>(id)] = message;
    return id;
  }
  void remove(MessageId id) override { free_.push_back(id); }

  void start(MessageId id) override {
    const Message& message = messages_[static_cast<std::size_t>(id)];
    const bool isSend = message.direction == Message::Direction::Send;
    hub_.post(isSend ? message.peer : rank_, {isSend ? rank_ : message.peer, message.tag}, isSend,
              {this, id, message.memory});
  }

  void poll(std::vector<MessageId>& done) override {
    const std::lock_guard lock(doneMutex_);
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

  void withdraw() override { hub_.withdraw(*this); }

  // By whoever's thread.
  void finished(MessageId id) {
    const std::lock_guard lock(doneMutex_);
    done_.push_back(id);
  }

 private:
  ThreadHub& hub_;
  int rank_;
  std::mt19937 random_;
  std::vector<Message> messages_;
  std::vector<MessageId> free_;
  std::mutex doneMutex_;  // taken last
  std::vector<MessageId> done_;
};

ThreadHub::ThreadHub(int size, std::uint32_t disorder) : disorder_(disorder) {
  for (int rank = 0; rank < size; ++rank) mailboxes_.push_back(std::make_unique<Mailbox>());
}

ThreadHub::~ThreadHub() = default;

std::unique_ptr<Transport> ThreadHub::transport(int rank) {
  return std::make_unique<Endpoint>(*this, rank);
}

void ThreadHub::post(int to, const Mailbox::Route& route, bool isSend, const Posted& posted) {
  Mailbox& mailbox = *mailboxes_[static_cast<std::size_t>(to)];
  const std::lock_guard lock(mailbox.mutex);
  std::deque<Posted>& sends = mailbox.sends[route];
  std::deque<Posted>& receives = mailbox.receives[route];
  (isSend ? sends : receives).push_back(posted);
  if (sends.empty() || receives.empty()) return;
  COHORT_CHECK(sends.front().memory.size() == receives.front().memory.size(),
               "a message has another size than its receiver expects");
  std::ranges::copy(sends.front().memory, receives.front().memory.begin());
  for (std::deque<Posted>* side : {&sends, &receives}) {
    side->front().endpoint->finished(side->front().id);
    side->pop_front();
  }
}

void ThreadHub::withdraw(const Endpoint& endpoint) {
  for (const auto& mailbox : mailboxes_) {
    const std::lock_guard lock(mailbox->mutex);
    for (auto* side : {&mailbox->sends, &mailbox->receives}) {
      for (auto& [route, queue] : *side) {
        std::erase_if(queue, [&](const Posted& posted) { return posted.endpoint == &endpoint; });
      }
    }
  }
}

}  // namespace cohort
