// One end of a connection between a worker and a server: envelopes with floats, in order, both ways. Private to center.
//
// Sending never waits. What is received is told on a thread of the transport's, one message at a time for each link.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "center/center.pb.h"

namespace cohort {

// Bytes behind an envelope, in parts that lie where the transport has them.
class Payload {
 public:
  Payload() = default;
  Payload(std::vector<std::span<const std::byte>> parts, std::shared_ptr<const void> owner);

  std::size_t size() const { return size_; }
  // All of them, to a place of that size.
  void copyTo(std::span<std::byte> place) const;

 private:
  std::vector<std::span<const std::byte>> parts_;
  std::shared_ptr<const void> owner_;
  std::size_t size_ = 0;
};

struct CenterMessage {
  wire::Envelope head;
  Payload payload{};
};

class Link {
 public:
  virtual ~Link() = default;
  // `floats` stay as they are until `keep`'s last copy is gone.
  virtual void send(const wire::Envelope& head, std::span<const float> floats = {},
                    std::shared_ptr<const void> keep = {}) = 0;
  // What was sent before still goes out; nothing is received any more.
  virtual void close() = 0;
  // The same, at once: what was not sent yet is lost.
  virtual void cut() { close(); }
};

// Who is told what comes in over a link. The last word is `closed`, once.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  virtual void received(CenterMessage message) = 0;
  virtual void closed(const std::string& why) = 0;
};

// Ways from a worker to the servers of a run. It outlives its links.
class Connector {
 public:
  virtual ~Connector() = default;
  virtual int servers() const = 0;
  virtual std::string nameOf(int server) const = 0;
  // Returns at once; where nobody answers, the listener is told that it is closed. The listener outlives the link.
  virtual std::unique_ptr<Link> connect(int server, LinkListener& listener) = 0;
};

// Floats that travel in one message: larger ones would leave the processor's cache.
inline constexpr std::size_t kFrameFloats = std::size_t{1} << 20;
// Bytes of a message that are refused unread.
inline constexpr int kLargestMessage = 16 << 20;

}  // namespace cohort
