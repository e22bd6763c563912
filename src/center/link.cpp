#include "center/link.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace cohort {

Payload::Payload(std::vector<std::span<const std::byte>> parts, std::shared_ptr<const void> owner)
    : parts_(std::move(parts)), owner_(std::move(owner)) {
  for (const std::span<const std::byte> part : parts_) size_ += part.size();
}

void Payload::copyTo(std::span<std::byte> place) const {
  COHORT_CHECK(place.size() == size_, "a payload fits its place");
  std::byte* to = place.data();
  for (const std::span<const std::byte> part : parts_) {
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
}

}  // namespace cohort
