// Sums what all workers have for the nodes of a tree, and gives everybody, or one of them, the result: reduce-scatter and all-gather,
// bucket by bucket, in the order of the tree's additions.
//
// A worker sends each slice of a finished bucket to the slice's owner. The owner adds what comes to the tree's nodes, whoever
// (a lane, the communication thread) brings the second half of one; at the root it applies the sum, and sends the new weights
// to all. What others send is held for a few buckets at a time, so that it stays in the cache: those behind are taken when the
// ones before are applied, which waits for nobody who waits for us. Weights may arrive while this worker still computes: the owner had this worker's whole share of the bucket, so no
// grain here reads these weights any more in this step.
//
// Thread safety: finished() from any lane, for different nodes or pieces at once; the rest by one thread, between steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/float_buffer.h"
#include "base/grain_tree.h"
#include "comm/group.h"
#include "sync/bucket_plan.h"

namespace cohort {

// How floats travel. With 16 bits (see half.h) gradients are rounded before they are added, in 32 bits; and what travels back is the
// change of the weights, rounded, which everybody adds to the same weights: all workers still agree in every bit, but the bits
// depend on how many they are.
enum class Wire { Fp32, Fp16 };

class ShardExchange {
 public:
  struct Parts {
    const GrainTree& tree;
    // By worker: the nodes that it brings. Together they cover the tree.
    std::vector<std::vector<int>> nodesOf;
    // Where this worker's own nodes have their sums, a whole arena each; in the order of nodesOf[rank]. In this worker's
    // slices they are changed.
    std::vector<std::span<float>> arenas;
    // The floats of the arena that everybody gets, or `receiver` alone.
    std::span<float> weights;
    // By a lane or the communication thread: the sum over all workers of the floats at `offset`, in this worker's slice of a
    // bucket, is complete; on return the slice's weights are the new ones.
    std::function<void(std::size_t offset, std::span<const float> sum)> apply;
    Wire wire = Wire::Fp32;
    int receiver = kEverybody;
    // On those who get them, by a lane or the communication thread: these floats are there.
    std::function<void(const ArenaRange&)> arrived = [](const ArenaRange&) {};
  };
  static constexpr int kEverybody = -1;

  // Tags from `tag` on are its own, as many as tagCount says.
  ShardExchange(Group workers, const BucketPlan& plan, Parts parts, int tag);
  static int tagCount(const BucketPlan& plan, const GrainTree& tree) {
    return plan.count() * (tree.nodeCount() + 1);
  }

  void begin();
  // The own node's sum of this piece is in its arena.
  void finished(int node, PieceIndex piece);
  // When all own nodes and pieces are finished: waits for the others. `what` is being exchanged, for the error's sentence.
  void end(const std::string& what);

 private:
  // Floats in their place, and the message that carries them.
  class Packet {
   public:
    Packet(Wire wire, std::span<float> values);
    std::span<std::byte> memory();
    void pack();
    void unpack();
    std::span<float> values() const { return values_; }

   private:
    std::span<float> values_;
    std::vector<std::byte> bytes_;  // empty: the floats are the message
  };
  struct Send {
    Packet* packet = nullptr;
    Communicator::Transfer* transfer = nullptr;
  };

  Packet& addPacket(std::span<float> values);
  void applySum(int bucket);
  std::size_t planSlices();
  void takeSums(int bucket);
  void addGradientTransfers(int bucket, int tag);
  bool gets(int worker) const { return parts_.receiver == kEverybody || parts_.receiver == worker; }
  void addWeightTransfers(int bucket, int tag);
  void bucketFinished(int node, int bucket);
  void add(int node, int bucket);
  float* place(int node, int bucket);
  int findHolders(int node);
  std::size_t at(int node, int bucket) const {
    return static_cast<std::size_t>(node) * static_cast<std::size_t>(plan_.count()) +
           static_cast<std::size_t>(bucket);
  }
  std::string missing(const std::string& what) const;

  Group workers_;
  const BucketPlan& plan_;
  Parts parts_;
  // By node that some worker brings: an own one's whole arena, or the buffer of another's.
  std::vector<float*> arenaOf_;
  std::vector<bool> isOwn_;
  std::vector<int> holderOf_;          // by node: the one of these whose memory has its sum
  std::vector<FloatBuffer> received_;  // others' nodes: kHeld of this worker's slices
  // By bucket.
  struct Slice {
    std::size_t held = 0;                 // where it is held in a buffer of others' nodes
    std::size_t owned = 0;                // where it lies among this worker's slices, one after the other
    std::vector<std::size_t> receives{};  // of others' sums
    int next = -1;                        // the bucket that is held there after it
  };
  std::vector<Slice> slices_;
  std::vector<int> heldFirst_;  // the buckets whose sums can be taken from the begin on
  // Never reset: a step adds what makes them divisible again.
  std::vector<std::atomic<std::uint64_t>> pieces_;  // by node and bucket: finished
  std::vector<std::atomic<std::uint32_t>> halves_;  // by node and bucket: children that are complete
  std::atomic<int> underWay_ = 0;
  int transfersPerStep_ = 0;
  struct Receive {
    Communicator::Transfer* transfer = nullptr;
    int peer = 0;
    bool isGradient = false;
    int bucket = 0;
  };
  std::vector<Receive> receives_;
  std::vector<std::atomic<bool>> isReceived_;
  std::vector<std::unique_ptr<Packet>> packets_;
  std::vector<std::vector<Send>> gradientSends_;                   // by node and bucket
  std::vector<Packet*> weightPackets_;                             // by bucket: this worker's slice
  std::vector<std::vector<Communicator::Transfer*>> weightSends_;  // by bucket
  FloatBuffer changes_;                                            // of the weights, where 16 bits travel
  FloatBuffer before_;  // this worker's slices, one after the other
};

}  // namespace cohort
