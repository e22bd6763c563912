#include "center/local_connector.h"

#include <mutex>

#include <fmt/format.h>

namespace cohort {
namespace {

CenterMessage messageOf(const wire::Envelope& head, std::span<const float> floats,
                        std::shared_ptr<const void> keep) {
  return {.head = head, .payload = Payload({std::as_bytes(floats)}, std::move(keep))};
}

// The server's end. It outlives the worker's.
class ServerEnd : public Link {
 public:
  explicit ServerEnd(LinkListener& listener) : listener_(&listener) {}

  void send(const wire::Envelope& head, std::span<const float> floats,
            std::shared_ptr<const void> keep) override {
    const std::lock_guard lock(mutex_);
    if (listener_ != nullptr) listener_->received(messageOf(head, floats, std::move(keep)));
  }
  void close() override { end("the server has closed the connection"); }

  // Nobody listens any more.
  void forget() {
    const std::lock_guard lock(mutex_);
    listener_ = nullptr;
  }

 private:
  void end(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (listener_ != nullptr) std::exchange(listener_, nullptr)->closed(why);
  }

  std::mutex mutex_;  // over the listener, and while it is told something
  LinkListener* listener_;
};

class WorkerEnd : public Link {
 public:
  WorkerEnd(Inbox& inbox, LinkListener& listener)
      : inbox_(inbox), id_(inbox.newLink()), server_(std::make_shared<ServerEnd>(listener)) {
    inbox_.put({.kind = Incoming::Kind::Opened, .link = id_, .opened = server_});
  }
  ~WorkerEnd() override { WorkerEnd::close(); }
  WorkerEnd(const WorkerEnd&) = delete;
  WorkerEnd& operator=(const WorkerEnd&) = delete;

  void send(const wire::Envelope& head, std::span<const float> floats,
            std::shared_ptr<const void> keep) override {
    inbox_.put(
        {.kind = Incoming::Kind::Received, .link = id_, .message = messageOf(head, floats, std::move(keep))});
  }
  void close() override {
    if (std::exchange(isClosed_, true)) return;
    server_->forget();
    inbox_.put({.kind = Incoming::Kind::Closed, .link = id_});
  }

 private:
  Inbox& inbox_;
  LinkId id_;
  std::shared_ptr<ServerEnd> server_;
  bool isClosed_ = false;
};

}  // namespace

std::string LocalServers::nameOf(int server) const {
  return fmt::format("server {}", server);
}

std::unique_ptr<Link> LocalServers::connect(int server, LinkListener& listener) {
  return std::make_unique<WorkerEnd>(servers_[static_cast<std::size_t>(server)]->inbox(), listener);
}

}  // namespace cohort
