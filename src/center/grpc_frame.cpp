#include "center/grpc_frame.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

namespace cohort {
namespace {

constexpr std::size_t kLengthBytes = 4;

// What floats on their way belong to. Any thread of gRPC's may end it; gRPC orders that, but where no sanitizer sees it.
struct Kept {
  std::shared_ptr<const void> owner;
  std::atomic<bool> isWhole = false;

  static void end(void* kept) {
    auto* own = static_cast<Kept*>(kept);
    (void)own->isWhole.load(std::memory_order_acquire);
    delete own;
  }
};

}  // namespace

grpc::ByteBuffer toBytes(const wire::Envelope& head, std::span<const float> floats,
                         std::shared_ptr<const void> keep) {
  const std::size_t size = head.ByteSizeLong();
  grpc::Slice front(kLengthBytes + size);
  auto* bytes = const_cast<std::uint8_t*>(front.begin());
  const auto length = static_cast<std::uint32_t>(size);
  std::memcpy(bytes, &length, kLengthBytes);
  head.SerializeWithCachedSizesToArray(bytes + kLengthBytes);
  std::array<grpc::Slice, 2> slices{std::move(front)};
  std::size_t count = 1;
  if (!floats.empty()) {
    // The bytes stay where they are; gRPC says when it has done with them.
    auto* kept = new Kept{.owner = std::move(keep)};
    kept->isWhole.store(true, std::memory_order_release);
    slices[count++] = grpc::Slice(const_cast<float*>(floats.data()), floats.size_bytes(), &Kept::end, kept);
  }
  return {slices.data(), count};
}

std::optional<CenterMessage> toMessage(const std::shared_ptr<Held>& held) {
  std::vector<std::span<const std::byte>> parts;
  std::size_t size = 0;
  for (const grpc::Slice& slice : held->slices) {
    if (slice.size() > 0) parts.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
    size += slice.size();
  }
  std::size_t next = 0;
  // Takes the first bytes off; false where there are not so many.
  const auto take = [&](std::byte* to, std::size_t count) {
    while (count > 0 && next < parts.size()) {
      const std::size_t some = std::min(count, parts[next].size());
      std::memcpy(to, parts[next].data(), some);
      parts[next] = parts[next].subspan(some);
      if (parts[next].empty()) ++next;
      to += some;
      count -= some;
    }
    return count == 0;
  };
  std::uint32_t length = 0;
  if (!take(reinterpret_cast<std::byte*>(&length), kLengthBytes) || length > std::min(size, kLargestHead))
    return std::nullopt;
  std::string head(length, '\0');
  CenterMessage message;
  if (!take(reinterpret_cast<std::byte*>(head.data()), length) || !message.head.ParseFromString(head))
    return std::nullopt;
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(next));
  message.payload = Payload(std::move(parts), held);
  return message;
}

std::size_t costOf(const CenterMessage& message) {
  // With the queues' own entries and what an allocator adds.
  constexpr std::size_t kEach = 1024;
  return kEach + message.head.SpaceUsedLong() + message.payload.size();
}

}  // namespace cohort
