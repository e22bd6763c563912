#include "sync/shard_exchange.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "sync/half.h"

namespace cohort {
namespace {

// Slices of others' sums that are held at the same time: one is added while the next one comes.
constexpr std::size_t kHeld = 2;

void addInto(float* __restrict sum, const float* __restrict part, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
}

}  // namespace

ShardExchange::Packet::Packet(Wire wire, std::span<float> values)
    : values_(values), bytes_(wire == Wire::Fp16 ? halfBytes(values.size()) : 0) {}

std::span<std::byte> ShardExchange::Packet::memory() {
  return bytes_.empty() ? std::as_writable_bytes(values_) : std::span(bytes_);
}

void ShardExchange::Packet::pack() {
  if (!bytes_.empty()) encodeHalf(values_, bytes_);
}

void ShardExchange::Packet::unpack() {
  if (!bytes_.empty()) decodeHalf(bytes_, values_);
}

ShardExchange::Packet& ShardExchange::addPacket(std::span<float> values) {
  packets_.push_back(std::make_unique<Packet>(parts_.wire, values));
  return *packets_.back();
}

ShardExchange::ShardExchange(Group workers, const BucketPlan& plan, Parts parts, int tag)
    : workers_(std::move(workers)),
      plan_(plan),
      parts_(std::move(parts)),
      arenaOf_(static_cast<std::size_t>(parts_.tree.nodeCount())),
      isOwn_(arenaOf_.size()),
      holderOf_(arenaOf_.size(), -1),
      slices_(static_cast<std::size_t>(plan.count())),
      pieces_(arenaOf_.size() * slices_.size()),
      halves_(pieces_.size()),
      gradientSends_(pieces_.size()),
      weightPackets_(slices_.size()),
      weightSends_(slices_.size()) {
  const int rank = workers_.rank();
  COHORT_CHECK(
      plan.workers() == workers_.size() && static_cast<int>(parts_.nodesOf.size()) == workers_.size(),
      "the plan is for these workers");
  const std::size_t held = planSlices();
  for (int peer = 0; peer < workers_.size(); ++peer) {
    const std::vector<int>& nodes = parts_.nodesOf[static_cast<std::size_t>(peer)];
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      holderOf_[static_cast<std::size_t>(nodes[i])] = nodes[i];
      float*& arena = arenaOf_[static_cast<std::size_t>(nodes[i])];
      if (peer == rank) {
        isOwn_[static_cast<std::size_t>(nodes[i])] = true;
        arena = parts_.arenas[i].data();
      } else {
        received_.emplace_back(held);
        arena = received_.back().data();
      }
    }
  }
  findHolders(0);
  for (int bucket = 0; bucket < plan.count(); ++bucket) {
    const int first = tag + bucket * (parts_.tree.nodeCount() + 1);
    addGradientTransfers(bucket, first);
    addWeightTransfers(bucket, first + parts_.tree.nodeCount());
  }
  isReceived_ = std::vector<std::atomic<bool>>(receives_.size());
}

// Gives each of this worker's slices its place; returns the floats that a buffer of others' sums needs.
std::size_t ShardExchange::planSlices() {
  std::vector<int> buckets;  // that this worker has a slice of
  std::size_t largest = 0;
  std::size_t owned = 0;
  for (int bucket = 0; bucket < plan_.count(); ++bucket) {
    const std::size_t size = plan_.slice(bucket, workers_.rank()).size();
    if (size == 0) continue;
    slices_[static_cast<std::size_t>(bucket)].owned = owned;
    owned += size;
    largest = std::max(largest, size);
    buckets.push_back(bucket);
  }
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    Slice& slice = slices_[static_cast<std::size_t>(buckets[i])];
    slice.held = i % kHeld * largest;
    slice.next = i + kHeld < buckets.size() ? buckets[i + kHeld] : -1;
  }
  heldFirst_.assign(buckets.begin(),
                    buckets.begin() + static_cast<std::ptrdiff_t>(std::min(kHeld, buckets.size())));
  if (parts_.wire == Wire::Fp16) {
    changes_ = FloatBuffer(parts_.weights.size());
    before_ = FloatBuffer(owned);
  }
  return std::min(kHeld, buckets.size()) * largest;
}

void ShardExchange::addGradientTransfers(int bucket, int tag) {
  const int rank = workers_.rank();
  for (int peer = 0; peer < workers_.size(); ++peer) {
    for (const int node : parts_.nodesOf[static_cast<std::size_t>(peer)]) {
      if (peer != rank) {
        const std::size_t size = plan_.slice(bucket, rank).size();
        if (size == 0) continue;
        Packet& packet = addPacket({place(node, bucket), size});
        const std::size_t index = receives_.size();
        receives_.push_back({&workers_.addReceive(peer, tag + node, packet.memory(),
                                                  [this, &packet, index, node, bucket] {
                                                    isReceived_[index] = true;
                                                    packet.unpack();
                                                    add(node, bucket);
                                                    --underWay_;
                                                  }),
                             peer, true, bucket});
        slices_[static_cast<std::size_t>(bucket)].receives.push_back(index);
        ++transfersPerStep_;
        continue;
      }
      for (int owner = 0; owner < workers_.size(); ++owner) {
        const ArenaRange slice = plan_.slice(bucket, owner);
        if (owner == rank || slice.size() == 0) continue;
        Packet& packet = addPacket({arenaOf_[static_cast<std::size_t>(node)] + slice.begin, slice.size()});
        gradientSends_[at(node, bucket)].push_back(
            {&packet, &workers_.addSend(owner, tag + node, packet.memory(), [this] { --underWay_; })});
        ++transfersPerStep_;
      }
    }
  }
}

void ShardExchange::addWeightTransfers(int bucket, int tag) {
  const bool rounds = parts_.wire == Wire::Fp16;
  const auto packetOf = [&](const ArenaRange& slice) -> Packet& {
    return addPacket((rounds ? changes_.span() : parts_.weights).subspan(slice.begin, slice.size()));
  };
  const ArenaRange own = plan_.slice(bucket, workers_.rank());
  if (own.size() > 0) weightPackets_[static_cast<std::size_t>(bucket)] = &packetOf(own);
  for (int peer = 0; peer < workers_.size(); ++peer) {
    if (peer == workers_.rank()) continue;
    if (own.size() > 0 && gets(peer)) {
      weightSends_[static_cast<std::size_t>(bucket)].push_back(&workers_.addSend(
          peer, tag, weightPackets_[static_cast<std::size_t>(bucket)]->memory(), [this] { --underWay_; }));
      ++transfersPerStep_;
    }
    const ArenaRange its = plan_.slice(bucket, peer);
    if (its.size() == 0 || !gets(workers_.rank())) continue;
    Packet& packet = packetOf(its);
    const std::size_t index = receives_.size();
    receives_.push_back({&workers_.addReceive(peer, tag, packet.memory(),
                                              [this, &packet, index, its, rounds] {
                                                isReceived_[index] = true;
                                                packet.unpack();
                                                if (rounds) {
                                                  addInto(parts_.weights.data() + its.begin,
                                                          packet.values().data(), its.size());
                                                }
                                                parts_.arrived(its);
                                                --underWay_;
                                              }),
                         peer, false, bucket});
    ++transfersPerStep_;
  }
}

void ShardExchange::begin() {
  underWay_ = transfersPerStep_;
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    isReceived_[i] = false;
    if (!receives_[i].isGradient) workers_.start(*receives_[i].transfer);
  }
  for (const int bucket : heldFirst_) takeSums(bucket);
}

// From now on others' sums of this worker's slice may come.
void ShardExchange::takeSums(int bucket) {
  for (const std::size_t index : slices_[static_cast<std::size_t>(bucket)].receives) {
    workers_.start(*receives_[index].transfer);
  }
}

void ShardExchange::finished(int node, PieceIndex piece) {
  const BucketPlan::Range buckets = plan_.bucketsOf(piece);
  for (int bucket = buckets.first; bucket < buckets.last; ++bucket) {
    const std::uint64_t done = 1 + pieces_[at(node, bucket)].fetch_add(1, std::memory_order_acq_rel);
    if (done % static_cast<std::uint64_t>(plan_.piecesIn(bucket)) == 0) bucketFinished(node, bucket);
  }
}

void ShardExchange::bucketFinished(int node, int bucket) {
  for (const Send& send : gradientSends_[at(node, bucket)]) {
    send.packet->pack();
    workers_.start(*send.transfer);
  }
  if (plan_.slice(bucket, workers_.rank()).size() > 0) add(node, bucket);
}

// Where the node's sum of this worker's slice lies.
float* ShardExchange::place(int node, int bucket) {
  const auto holder = static_cast<std::size_t>(holderOf_[static_cast<std::size_t>(node)]);
  return arenaOf_[holder] + (isOwn_[holder] ? plan_.slice(bucket, workers_.rank()).begin
                                            : slices_[static_cast<std::size_t>(bucket)].held);
}

// A node that nobody brings has its sum where one of its halves has: in an own arena if there is one, and what others sent
// is only read. (Two numbers give the same sum in either order.) Returns the holder.
int ShardExchange::findHolders(int node) {
  const auto index = static_cast<std::size_t>(node);
  if (holderOf_[index] >= 0) return node;  // somebody brings it
  const GrainTree::Node& halves = parts_.tree.node(node);
  COHORT_CHECK(halves.left >= 0, "the workers' nodes cover the tree");
  const int left = findHolders(halves.left);
  const int right = findHolders(halves.right);
  const bool isRight = !isOwn_[static_cast<std::size_t>(left)] && isOwn_[static_cast<std::size_t>(right)];
  return holderOf_[index] = isRight ? right : left;
}

// The node's sum of this worker's slice is complete.
void ShardExchange::add(int node, int bucket) {
  const ArenaRange slice = plan_.slice(bucket, workers_.rank());
  while (node != 0) {
    const int parent = parts_.tree.node(node).parent;
    // Releases what this thread wrote, and acquires what the other half's wrote, whoever comes second.
    if ((halves_[at(parent, bucket)].fetch_add(1, std::memory_order_acq_rel) & 1U) == 0) return;
    const GrainTree::Node& halves = parts_.tree.node(parent);
    float* sum = place(parent, bucket);
    const float* left = place(halves.left, bucket);
    addInto(sum, sum == left ? place(halves.right, bucket) : left, slice.size());
    node = parent;
  }
  applySum(bucket);
  if (gets(workers_.rank())) parts_.arrived(slice);
  for (Communicator::Transfer* transfer : weightSends_[static_cast<std::size_t>(bucket)]) {
    workers_.start(*transfer);
  }
  if (const int next = slices_[static_cast<std::size_t>(bucket)].next; next >= 0) takeSums(next);
}

void ShardExchange::applySum(int bucket) {
  const ArenaRange slice = plan_.slice(bucket, workers_.rank());
  const std::span<const float> sum{place(0, bucket), slice.size()};
  if (parts_.wire == Wire::Fp32) return parts_.apply(slice.begin, sum);
  const std::span<float> weights = parts_.weights.subspan(slice.begin, slice.size());
  const std::span<float> before =
      before_.span().subspan(slices_[static_cast<std::size_t>(bucket)].owned, slice.size());
  Packet& packet = *weightPackets_[static_cast<std::size_t>(bucket)];
  std::ranges::copy(weights, before.begin());
  parts_.apply(slice.begin, sum);
  for (std::size_t i = 0; i < slice.size(); ++i) packet.values()[i] = weights[i] - before[i];
  packet.pack();
  packet.unpack();
  for (std::size_t i = 0; i < slice.size(); ++i) weights[i] = before[i] + packet.values()[i];
}

std::string ShardExchange::missing(const std::string& what) const {
  const auto text = [&](const Receive& receive, const char* part) {
    return fmt::format("worker {}: {} {} in bucket {} of {}", workers_.workerOf(receive.peer), part, what,
                       receive.bucket + 1, plan_.count());
  };
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    if (!isReceived_[i] && receives_[i].isGradient) return text(receives_[i], "its part of");
  }
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    if (!isReceived_[i]) return text(receives_[i], "the new weights after");
  }
  return fmt::format("another worker to take what it is sent of {}", what);
}

void ShardExchange::end(const std::string& what) {
  workers_.waitUntil([this] { return underWay_ == 0; }, [&] { return missing(what); });
}

}  // namespace cohort
