#include "sync/bulk_synchronous.h"

#include <algorithm>
#include <chrono>

namespace cohort {

BulkSynchronous::BulkSynchronous(const ParameterLayout& layout, Shard& shard, int grains, int lanes)
    : layout_(layout),
      shard_(shard),
      grains_(grains),
      lanes_(lanes),
      sum_(layout, grains, lanes,
           [this](PieceIndex piece, std::span<const float> sum) { apply(piece, sum); }) {}

void BulkSynchronous::apply(PieceIndex piece, std::span<const float> sum) {
  const auto start = std::chrono::steady_clock::now();
  if (!kept_.empty())
    std::ranges::copy(sum, kept_.begin() + static_cast<std::ptrdiff_t>(layout_.piece(piece).offset));
  shard_.update(layout_.piece(piece).offset, sum, step_);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  updateNanoseconds_.fetch_add(took.count(), std::memory_order_relaxed);
}

}  // namespace cohort
