// The thread of a server, over any transport. Private to center.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "center/inbox.h"
#include "center/snapshot_writer.h"

namespace cohort {

class ServerLoop {
 public:
  // With `snapshots` (which may be nullptr), goes on with what is there, and keeps it up to date. IoError and UsageError where it
  // cannot be used.
  ServerLoop(const Center::Place& place, std::unique_ptr<SnapshotWriter> snapshots);
  // Closes all links.
  ~ServerLoop();
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;

  // For transports, from any thread: a link's opening, messages and closing, in that order.
  Inbox& inbox() { return inbox_; }
  bool isOver(double seconds);
  bool hasLinks() const { return hasLinks_; }
  bool hasMembers() const { return hasMembers_; }

 private:
  void run();

  Inbox inbox_;
  Center center_;
  std::unique_ptr<SnapshotWriter> snapshots_;
  // With how many messages it has sent in the present second.
  struct Known {
    std::shared_ptr<Link> link;
    Clock::time_point since{};
    int messages = 0;
  };
  bool isTooMuch(Known& known) const;

  std::map<LinkId, Known> links_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool isOver_ = false;
  std::atomic<bool> hasLinks_ = false;
  std::atomic<bool> hasMembers_ = false;
  std::thread thread_;
};

}  // namespace cohort
