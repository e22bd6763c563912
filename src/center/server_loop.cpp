#include "center/server_loop.h"

#include <chrono>

namespace cohort {

ServerLoop::ServerLoop(const Center::Place& place, std::unique_ptr<SnapshotWriter> snapshots)
    : center_(place), snapshots_(std::move(snapshots)) {
  if (snapshots_) {
    if (std::optional<Snapshot> found = readSnapshot(snapshots_->file())) center_.restore(*std::move(found));
  }
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
  constexpr int kMostMessages = 50'000;
  const Clock::time_point now = Clock::now();
  if (now - known.since > std::chrono::seconds(1)) {
    known.since = now;
    known.messages = 0;
  }
  return ++known.messages > kMostMessages;
}

void ServerLoop::run() {
  for (;;) {
    const Incoming incoming = inbox_.take();
    switch (incoming.kind) {
      case Incoming::Kind::Opened:
        links_.emplace(incoming.link, Known{.link = incoming.opened});
        center_.opened(incoming.link, *incoming.opened);
        break;
      case Incoming::Kind::Received:
        if (const auto known = links_.find(incoming.link); known != links_.end()) {
          const bool isRefused =
              isTooMuch(known->second) || !center_.received(incoming.link, incoming.message);
          if (!isRefused) break;
          center_.closed(incoming.link);
          known->second.link->close();
        }
        break;
      case Incoming::Kind::Closed:
        center_.closed(incoming.link);
        links_.erase(incoming.link);
        break;
      case Incoming::Kind::Halt:
        center_.halt(true);
        break;
      case Incoming::Kind::Stop:
        for (const auto& [id, known] : links_) known.link->close();
        links_.clear();
        return;
    }
    if (snapshots_ && snapshots_->isDue() && center_.hasSnapshot()) snapshots_->write(center_.snapshot());
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
