#include "sync/group_orders.h"

namespace cohort {
namespace {

Ownership allTheFirst(int workers, std::size_t floats) {
  Ownership owned(static_cast<std::size_t>(workers));
  owned.front().push_back({0, floats});
  return owned;
}

}  // namespace

GroupOrders::GroupOrders(Communicator& group, std::span<float> weights, int tag)
    : group_(group),
      owned_(allTheFirst(group.size(), weights.size())),
      weights_(group, owned_, weights, tag + 1) {
  const auto memory = std::as_writable_bytes(std::span(&order_, 1));
  const auto done = [this] { --underWay_; };
  if (!group.isFirst()) {
    transfers_.push_back(&group.addReceive(0, tag, memory, done));
    return;
  }
  for (int peer = 1; peer < group.size(); ++peer)
    transfers_.push_back(&group.addSend(peer, tag, memory, done));
}

void GroupOrders::passWeights() {
  if (order_.hasWeights) weights_.run("the weights that the center gave");
}

void GroupOrders::give(const GroupOrder& order) {
  order_ = order;
  underWay_ = static_cast<int>(transfers_.size());
  for (Communicator::Transfer* transfer : transfers_) group_.start(*transfer);
  group_.waitUntil([this] { return underWay_ == 0; },
                   [] { return std::string("another worker to take its order"); });
  passWeights();
}

GroupOrder GroupOrders::take() {
  underWay_ = 1;
  group_.start(*transfers_.front());
  group_.waitUntil([this] { return underWay_ == 0; },
                   [] { return std::string("worker 0: what the center wants next"); });
  passWeights();
  return order_;
}

}  // namespace cohort
