// The thread of a server, over any transport: hears what comes in, in turn, and watches that nobody takes more than his share.
// Private to center.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "center/inbox.h"
#include "center/snapshot_writer.h"

namespace cohort {

class ServerLoop {
 public:
  static constexpr int kMostMessages = 50'000;          // of one link in a second
  static constexpr std::chrono::seconds kGreeting{20};  // from a link's opening
  static constexpr std::chrono::seconds kFarewell{5};  // from a link's closing: what was said before goes out

  // With `snapshots` (which may be nullptr), goes on with what is there, and keeps it up to date until the run is over. IoError and
  // UsageError where it cannot be used.
  // `journal` may be nullptr too.
  ServerLoop(const Center::Place& place, std::unique_ptr<SnapshotWriter> snapshots,
             std::function<Clock::time_point()> now = Clock::now,
             std::unique_ptr<JournalWriter> journal = nullptr);
  // Closes all links.
  ~ServerLoop();
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;

  // For transports, from any thread: a link's opening, messages and closing, in that order.
  Inbox& inbox() { return inbox_; }
  // Its snapshot is gone then.
  bool isOver(double seconds);
  bool hasLinks() const { return hasLinks_; }
  bool hasMembers() const { return hasMembers_; }

 private:
  struct Known {
    std::shared_ptr<Link> link;
    Clock::time_point opened;
    bool hasGreeted = false;
    std::optional<Clock::time_point> closed{};  // by this end
    Clock::time_point second{};                 // the present one
    int messages = 0;                           // that came in it
  };

  void run();
  void hear(LinkId id, const CenterMessage& message);
  void refuse(LinkId id, Known& known, const char* sentence);
  void close(LinkId id, Known& known);
  bool isTooMuch(Known& known) const;
  void watch();
  void keepSnapshot();

  Inbox inbox_;
  std::unique_ptr<JournalWriter> journal_;
  Center center_;
  std::unique_ptr<SnapshotWriter> snapshots_;
  std::function<Clock::time_point()> now_;
  std::uint64_t opening_ = 0;  // that the snapshot is of
  std::map<LinkId, Known> links_;
  Clock::time_point watched_{};
  std::mutex mutex_;
  std::condition_variable over_;
  bool isOver_ = false;
  std::atomic<bool> hasLinks_ = false;
  std::atomic<bool> hasMembers_ = false;
  std::thread thread_;
};

}  // namespace cohort
