// A message as the bytes of a stream: a length (32 bits, least significant byte first), the envelope of that length, and the floats.
// Private to center.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include "center/link.h"

namespace cohort {

// `floats` are not copied; `keep` goes when gRPC has done with them.
grpc::ByteBuffer toBytes(const wire::Envelope& head, std::span<const float> floats,
                         std::shared_ptr<const void> keep);

// What was read, while somebody needs it.
struct Held {
  std::vector<grpc::Slice> slices{};
  std::function<void(std::size_t cost)> release{};
  std::size_t cost = 0;

  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (release) release(cost);
  }
};

// Bytes of an envelope that are refused unread: what it is parsed to takes many times as much memory.
inline constexpr std::size_t kLargestHead = std::size_t{4} << 20;

// Nothing where the bytes are no message.
std::optional<CenterMessage> toMessage(const std::shared_ptr<Held>& held);
// The memory that it takes while it waits, roughly. No message is free.
std::size_t costOf(const CenterMessage& message);

}  // namespace cohort
