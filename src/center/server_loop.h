// The thread of a server, over any transport. Private to center.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "center/inbox.h"

namespace cohort {

class ServerLoop {
 public:
  explicit ServerLoop(const Center::Place& place);
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
  std::map<LinkId, std::shared_ptr<Link>> links_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool isOver_ = false;
  std::atomic<bool> hasLinks_ = false;
  std::atomic<bool> hasMembers_ = false;
  std::thread thread_;
};

}  // namespace cohort
