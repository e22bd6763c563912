#include "comm/mesh_transport.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "comm/mesh_meeting.h"
#include "comm/socket_stream.h"

namespace cohort {
namespace {

// What goes before every message.
struct Header {
  std::uint64_t bytes = 0;
  std::uint32_t tag = 0;
  std::uint32_t unused = 0;
};

// One other worker: what goes there, in order, and what comes from there.
class Peer {
 public:
  Peer(int number, std::unique_ptr<SocketStream> stream) : number_(number), stream_(std::move(stream)) {}

  void send(MessageId id, int tag, std::span<const std::byte> memory) {
    outgoing_.push_back({id, {.bytes = memory.size(), .tag = static_cast<std::uint32_t>(tag)}, memory});
  }
  void receive(MessageId id, int tag, std::span<std::byte> memory, std::vector<MessageId>& done);
  void move(std::vector<MessageId>& done);
  // Why it is gone; nothing while it is there.
  const std::optional<std::string>& gone() const { return gone_; }
  // Whether it is gone and somebody wants something of it. One that has ended, and of which nobody does, does not matter: at the end of
  // a run somebody is the first to go.
  bool isMissed() const {
    return gone_ && (hasHeader_ || received_ > 0 || wanted_ > 0 || !outgoing_.empty());
  }

 private:
  struct Outgoing {
    MessageId id = 0;
    Header header{};
    std::span<const std::byte> memory;
    std::size_t sent = 0;  // with the header
  };
  struct Wanted {
    MessageId id = 0;
    std::span<std::byte> memory;
  };
  // Of one tag: those who wait for a message, or messages that nobody waits for yet.
  struct Queue {
    std::deque<Wanted> wanted;
    std::deque<std::vector<std::byte>> early;
  };

  void moveOut(std::vector<MessageId>& done);
  void moveIn(std::vector<MessageId>& done);
  void beginBody();
  void endBody(std::vector<MessageId>& done);
  std::vector<std::byte> takeSpare(std::size_t bytes);

  int number_;
  std::unique_ptr<SocketStream> stream_;
  std::deque<Outgoing> outgoing_;
  std::map<std::uint32_t, Queue> queues_;  // by tag
  std::vector<std::vector<std::byte>> spare_;
  int wanted_ = 0;  // messages that somebody waits for
  std::optional<std::string> gone_;

  // What is coming in just now.
  Header header_{};
  bool hasHeader_ = false;
  std::size_t received_ = 0;  // of the header, and then of the body
  std::optional<Wanted> into_;
  std::vector<std::byte> early_;
};

void requireSize(std::size_t sent, std::size_t expected) {
  if (sent != expected) {
    throw PeerError(fmt::format(
        "another worker sends {} bytes where {} are expected; start all with the same program and settings",
        sent, expected));
  }
}

void Peer::receive(MessageId id, int tag, std::span<std::byte> memory, std::vector<MessageId>& done) {
  Queue& queue = queues_[static_cast<std::uint32_t>(tag)];
  if (queue.early.empty()) {
    queue.wanted.push_back({id, memory});
    ++wanted_;
    return;
  }
  std::vector<std::byte> body = std::move(queue.early.front());
  queue.early.pop_front();
  requireSize(body.size(), memory.size());
  std::ranges::copy(body, memory.begin());
  spare_.push_back(std::move(body));
  done.push_back(id);
}

void Peer::moveOut(std::vector<MessageId>& done) {
  while (!outgoing_.empty()) {
    Outgoing& first = outgoing_.front();
    const auto header = std::as_bytes(std::span(&first.header, 1));
    const std::span<const std::byte> rest = first.sent < header.size()
                                                ? header.subspan(first.sent)
                                                : first.memory.subspan(first.sent - header.size());
    if (!rest.empty()) {
      const std::size_t count = stream_->write(rest);
      if (count == 0) return;
      first.sent += count;
    }
    if (first.sent < header.size() + first.memory.size()) continue;
    done.push_back(first.id);
    outgoing_.pop_front();
  }
}

// A buffer that has served before, where one is large enough: no step allocates.
std::vector<std::byte> Peer::takeSpare(std::size_t bytes) {
  const auto found = std::ranges::find_if(
      spare_, [&](const std::vector<std::byte>& spare) { return spare.capacity() >= bytes; });
  std::vector<std::byte> taken;
  if (found != spare_.end()) {
    taken = std::move(*found);
    spare_.erase(found);
  }
  taken.resize(bytes);
  return taken;
}

void Peer::beginBody() {
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;
  if (header_.bytes > kLargest) throw PeerError("another worker sends what is no message");
  Queue& queue = queues_[header_.tag];
  if (queue.wanted.empty()) {
    early_ = takeSpare(header_.bytes);
    return;
  }
  into_ = queue.wanted.front();
  queue.wanted.pop_front();
  requireSize(header_.bytes, into_->memory.size());
}

void Peer::endBody(std::vector<MessageId>& done) {
  hasHeader_ = false;
  received_ = 0;
  if (into_) {
    done.push_back(into_->id);
    into_.reset();
    --wanted_;
    return;
  }
  Queue& queue = queues_[header_.tag];
  queue.early.push_back(std::move(early_));
  if (queue.wanted.empty()) return;
  // Somebody has begun to wait meanwhile.
  const Wanted wanted = queue.wanted.front();
  queue.wanted.pop_front();
  --wanted_;
  receive(wanted.id, static_cast<int>(header_.tag), wanted.memory, done);
}

void Peer::moveIn(std::vector<MessageId>& done) {
  for (;;) {
    if (!hasHeader_) {
      const std::size_t count =
          stream_->read(std::as_writable_bytes(std::span(&header_, 1)).subspan(received_));
      received_ += count;
      if (count == 0) return;
      if (received_ < sizeof header_) continue;
      hasHeader_ = true;
      received_ = 0;
      beginBody();
    }
    if (received_ < header_.bytes) {
      const std::size_t count = stream_->read((into_ ? into_->memory : std::span(early_)).subspan(received_));
      received_ += count;
      if (count == 0) return;
    }
    if (received_ == header_.bytes) endBody(done);
  }
}

void Peer::move(std::vector<MessageId>& done) {
  if (gone_) return;
  try {
    moveOut(done);
    moveIn(done);
  } catch (const PeerError& error) {
    gone_ = fmt::format("worker {} is gone: {}", number_, error.what());
  }
}

class MeshTransport : public Transport {
 public:
  MeshTransport(int rank, std::vector<std::unique_ptr<Peer>> peers) : rank_(rank), peers_(std::move(peers)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }

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
    Peer& peer = *peers_[static_cast<std::size_t>(message.peer)];
    if (message.direction == Message::Direction::Send) {
      peer.send(id, message.tag, message.memory);
    } else {
      peer.receive(id, message.tag, message.memory, done_);
    }
  }

  void poll(std::vector<MessageId>& done) override {
    bool isMissed = false;
    for (const std::unique_ptr<Peer>& peer : peers_) {
      if (!peer) continue;
      peer->move(done_);
      if (peer->gone() && !firstGone_) firstGone_ = peer->gone();
      isMissed = isMissed || peer->isMissed();
    }
    // Where one dies others end for want of it: the first one is to blame.
    if (isMissed) throw PeerError(*firstGone_);
    done.insert(done.end(), done_.begin(), done_.end());
    done_.clear();
  }

 private:
  int rank_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; nothing for itself
  std::vector<Message> messages_;             // by id
  std::vector<MessageId> free_;
  std::vector<MessageId> done_;
  std::optional<std::string> firstGone_;  // of all
};

}  // namespace

std::unique_ptr<Transport> connectMesh(const MeshPlace& place) {
  std::signal(SIGPIPE, SIG_IGN);  // a connection that breaks is an error of its write
  std::vector<std::unique_ptr<SocketStream>> streams = meetWorkers(place);
  std::vector<std::unique_ptr<Peer>> peers;
  peers.reserve(streams.size());
  for (std::size_t other = 0; other < streams.size(); ++other) {
    const int number = place.first + static_cast<int>(other);
    peers.push_back(streams[other] ? std::make_unique<Peer>(number, std::move(streams[other])) : nullptr);
  }
  return std::make_unique<MeshTransport>(place.rank, std::move(peers));
}

}  // namespace cohort
