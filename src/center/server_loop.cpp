#include "center/server_loop.h"

#include <chrono>
#include <exception>
#include <utility>

namespace cohort {
namespace {

constexpr std::chrono::seconds kWatch{1};

}  // namespace

ServerLoop::ServerLoop(const Center::Place& place, std::unique_ptr<SnapshotWriter> snapshots,
                       std::function<Clock::time_point()> now, std::unique_ptr<JournalWriter> journal)
    : journal_(std::move(journal)),
      center_(place, journal_.get()),
      snapshots_(std::move(snapshots)),
      now_(std::move(now)) {
  if (snapshots_) {
    if (std::optional<Snapshot> found = readSnapshot(snapshots_->file())) center_.restore(*std::move(found));
  }
  opening_ = center_.opening();
  thread_ = std::thread([this] { run(); });
}

ServerLoop::~ServerLoop() {
  inbox_.put({.kind = Incoming::Kind::Stop});
  thread_.join();
}

bool ServerLoop::isOver(double seconds) {
  std::unique_lock lock(mutex_);
  return over_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return isOver_; });
}

// Nobody needs as many; who sends them keeps the server from others.
bool ServerLoop::isTooMuch(Known& known) const {
  const Clock::time_point now = now_();
  if (now - known.second > std::chrono::seconds(1)) {
    known.second = now;
    known.messages = 0;
  }
  return ++known.messages > kMostMessages;
}

void ServerLoop::close(LinkId id, Known& known) {
  center_.closed(id);
  known.closed = now_();
  known.link->close();
}

void ServerLoop::refuse(LinkId id, Known& known, const char* sentence) {
  try {
    wire::Envelope last;
    last.mutable_refused()->set_sentence(sentence);
    known.link->send(last);
  } catch (const std::exception&) {
    // It ends without a word: there is no memory for one.
    known.link->cut();
  }
  close(id, known);
}

void ServerLoop::hear(LinkId id, const CenterMessage& message) {
  const auto found = links_.find(id);
  if (found == links_.end() || found->second.closed) return;
  Known& known = found->second;
  if (isTooMuch(known)) return refuse(id, known, "it sends too many messages");
  try {
    if (!center_.received(id, message)) return close(id, known);
    known.hasGreeted = known.hasGreeted || message.head.has_hello();
  } catch (const std::exception&) {
    // What a message asked for could not be had, memory for example. That is the sender's trouble, and no other's.
    refuse(id, known, "the server cannot do that");
  }
}

// Links that never greet, and links that were told to go and do not.
void ServerLoop::watch() {
  const Clock::time_point now = now_();
  if (now - watched_ < kWatch) return;
  watched_ = now;
  for (auto& [id, known] : links_) {
    if (known.closed) {
      if (now - *known.closed > kFarewell) known.link->cut();
    } else if (!known.hasGreeted && now - known.opened > kGreeting) {
      refuse(id, known, "it has not greeted");
    }
  }
}

void ServerLoop::keepSnapshot() {
  if (!snapshots_ || isOver_) return;
  // One of an earlier opening would be gone on with, as if nothing had happened since.
  if (std::exchange(opening_, center_.opening()) != center_.opening() || center_.isOver())
    snapshots_->forget();
  if (!center_.isOver() && center_.hasSnapshot() && snapshots_->isDue())
    snapshots_->write([this] { return center_.snapshot(); });
}

void ServerLoop::run() {
  for (;;) {
    const std::optional<Incoming> incoming = links_.empty() ? inbox_.take() : inbox_.takeWithin(kWatch);
    if (incoming) {
      switch (incoming->kind) {
        case Incoming::Kind::Opened:
          links_.emplace(incoming->link, Known{.link = incoming->opened, .opened = now_()});
          center_.opened(incoming->link, *incoming->opened);
          break;
        case Incoming::Kind::Received:
          hear(incoming->link, incoming->message);
          break;
        case Incoming::Kind::Closed:
          center_.closed(incoming->link);
          links_.erase(incoming->link);
          break;
        case Incoming::Kind::Halt:
          center_.halt(true);
          break;
        case Incoming::Kind::Stop:
          for (const auto& [id, known] : links_) known.link->close();
          links_.clear();
          return;
      }
    }
    watch();
    keepSnapshot();
    hasLinks_ = !links_.empty();
    hasMembers_ = center_.hasMembers();
    if (center_.isOver()) {
      const std::lock_guard lock(mutex_);
      isOver_ = true;
      over_.notify_all();
    }
  }
}

}  // namespace cohort
