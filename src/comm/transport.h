// What a way of carrying messages between workers must offer. Everything but rank() and size() is called by one thread, and
// nothing here waits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace cohort {

using MessageId = int;

// A message that may be sent, or received, again and again, always with the same memory. What one worker sends to another
// under a tag arrives in what that one receives from the first under this tag, in the order of starting; both sizes are equal.
struct Message {
  enum class Direction { Send, Receive };
  Direction direction = Direction::Send;
  int peer = 0;
  int tag = 0;
  std::span<std::byte> memory;  // a sender only reads it
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual MessageId add(const Message& message) = 0;
  virtual void remove(MessageId id) = 0;  // one that is not on its way
  // From now until it is done, the memory is the transport's.
  virtual void start(MessageId id) = 0;
  // Moves messages on; those that are done now are added to `done`.
  virtual void poll(std::vector<MessageId>& done) = 0;
  // For a worker that has failed, the last call of all: from now on nobody touches the memory of what is under way.
  virtual void withdraw() {}
};

}  // namespace cohort
