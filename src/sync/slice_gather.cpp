#include "sync/slice_gather.h"

#include <fmt/format.h>

namespace cohort {

SliceGather::SliceGather(Communicator& workers, const Ownership& owned, std::span<float> arena, int tag)
    : workers_(workers) {
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
      transfers_.push_back(&workers.addReceive(peer, tag + static_cast<int>(i), bytesOf(its[i]), done));
    }
  }
}

void SliceGather::run(const std::string& what) {
  underWay_ = static_cast<int>(transfers_.size());
  for (Communicator::Transfer* transfer : transfers_) workers_.start(*transfer);
  workers_.waitUntil([this] { return underWay_ == 0; },
                     [&] { return fmt::format("the other workers' parts of {}", what); });
}

}  // namespace cohort
