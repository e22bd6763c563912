#include "center/status.h"

#include <condition_variable>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "center/link.h"

namespace cohort {
namespace {

// Waits for one answer.
class Answer : public LinkListener {
 public:
  void received(CenterMessage message) override {
    const std::lock_guard lock(mutex_);
    if (message.head.has_status()) status_ = message.head.status();
    changed_.notify_all();
  }
  void closed(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    why_ = why;
    isClosed_ = true;
    changed_.notify_all();
  }

  wire::Status wait(const std::string& name, double seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return status_ || isClosed_; });
    if (!status_) {
      throw PeerError(fmt::format("{} does not say how it is: {}", name,
                                  isClosed_ ? why_ : fmt::format("no answer within {:g} s", seconds)));
    }
    return *status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<wire::Status> status_;
  bool isClosed_ = false;
  std::string why_;
};

ServerStatus fromWire(const wire::Status& message, const std::string& name) {
  ServerStatus status{.name = name,
                      .isOpen = message.is_open(),
                      .rule = message.rule(),
                      .target = {},
                      .done = message.done(),
                      .dropped = message.dropped(),
                      .members = {},
                      .version = message.version(),
                      .duplicates = message.duplicates(),
                      .lost = message.lost(),
                      .staleness = {message.staleness().begin(), message.staleness().end()},
                      .floats = message.floats(),
                      .bytesReceived = message.bytes_received(),
                      .bytesSent = message.bytes_sent(),
                      .updateSeconds = message.update_seconds()};
  if (message.has_target()) status.target = message.target();
  if (message.has_shares()) {
    status.shares = {.workers = message.shares().workers(),
                     .mail = message.shares().mail(),
                     .nobodys = message.shares().nobodys()};
  }
  for (const wire::Status::Member& member : message.members()) {
    status.members.push_back({.name = member.name(),
                              .finished = member.finished(),
                              .step = member.step(),
                              .isChief = member.is_chief()});
  }
  return status;
}

}  // namespace

std::vector<ServerStatus> fetchStatus(Connector& servers, double seconds) {
  std::vector<ServerStatus> all;
  for (int i = 0; i < servers.servers(); ++i) {
    Answer answer;
    const std::unique_ptr<Link> link = servers.connect(i, answer);
    wire::Envelope request;
    request.mutable_ask_status();
    link->send(request);
    all.push_back(fromWire(answer.wait(servers.nameOf(i), seconds), servers.nameOf(i)));
  }
  return all;
}

}  // namespace cohort
