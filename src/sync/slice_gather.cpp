#include "sync/slice_gather.h"

#include <fmt/format.h>

namespace cohort {

SliceGather::SliceGather(Communicator& workers, const Ownership& owned, std::span<float> arena, int tag)
    : workers_(workers),
      slices_(static_cast<std::size_t>(workers.size())),
      owed_(static_cast<std::size_t>(workers.size())) {
  const auto bytesOf = [&](const ArenaRange& range) {
    return std::as_writable_bytes(arena.subspan(range.begin, range.size()));
  };
  const auto done = [this] { --underWay_; };
  const std::vector<ArenaRange>& own = owned[static_cast<std::size_t>(workers.rank())];
  for (int peer = 0; peer < workers.size(); ++peer) {
    if (peer == workers.rank()) continue;
    for (std::size_t i = 0; i < own.size(); ++i) {
      transfers_.push_back(&workers.addSend(peer, tag + static_cast<int>(i), bytesOf(own[i]), done));
    }
    const std::vector<ArenaRange>& its = owned[static_cast<std::size_t>(peer)];
    for (std::size_t i = 0; i < its.size(); ++i) {
      transfers_.push_back(
          &workers.addReceive(peer, tag + static_cast<int>(i), bytesOf(its[i]), [this, peer] {
            --owed_[static_cast<std::size_t>(peer)];
            --underWay_;
          }));
    }
    slices_[static_cast<std::size_t>(peer)] = static_cast<int>(its.size());
  }
}

std::string SliceGather::missing(const std::string& what) const {
  for (std::size_t peer = 0; peer < owed_.size(); ++peer) {
    if (owed_[peer] > 0) return fmt::format("worker {}: its part of {}", peer, what);
  }
  return fmt::format("another worker to take what it is sent of {}", what);
}

void SliceGather::run(const std::string& what) {
  underWay_ = static_cast<int>(transfers_.size());
  for (std::size_t peer = 0; peer < owed_.size(); ++peer) owed_[peer] = slices_[peer];
  for (Communicator::Transfer* transfer : transfers_) workers_.start(*transfer);
  workers_.waitUntil([this] { return underWay_ == 0; }, [&] { return missing(what); });
}

}  // namespace cohort
