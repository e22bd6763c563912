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

void ServerLoop::run() {
  for (;;) {
    const Incoming incoming = inbox_.take();
    switch (incoming.kind) {
      case Incoming::Kind::Opened:
        links_.emplace(incoming.link, incoming.opened);
        center_.opened(incoming.link, *incoming.opened);
        break;
      case Incoming::Kind::Received:
        if (!center_.received(incoming.link, incoming.message)) {
          const auto link = links_.find(incoming.link);
          if (link != links_.end()) link->second->close();
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
        for (const auto& [id, link] : links_) link->close();
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
