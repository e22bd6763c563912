// The mail between workers that gossip, of one server's slice. A worker comes after each of its steps: it leaves a letter (its weights, for
// another worker, and half of its share), or none, and takes what others have left for it.
//
// Letters to one worker are mixed as they come, so that it takes at most one slice of floats for each worker. What a visit has found is kept
// until the next one, for a worker that did not hear the answer. Used by one thread.
#pragma once

#include <map>
#include <memory>
#include <span>

#include "base/batch.h"
#include "base/float_buffer.h"
#include "center/buffer_pool.h"
#include "center/gossip_shares.h"

namespace cohort {

// into <- into + part * (from - into)
void mix(std::span<float> into, std::span<const float> from, double part);

struct GossipVisit {
  OwnerId worker = 0;
  std::int64_t number = 0;  // of its visits: 1, 2, 3 …
};

class GossipPost {
 public:
  GossipPost(std::uint64_t seed, std::shared_ptr<BufferPool> pool) : shares_(seed), pool_(std::move(pool)) {}

  // Whoever is not known joins. `letter` is empty where there is none; the center's weights move to it by its sender's share. `version`: of
  // the update that this visit is.
  void visit(const GossipVisit& visit, Step version, FloatBuffer letter, std::span<float> center);
  // False where it is not known: nothing is done.
  bool leave(OwnerId worker);

  struct Found {
    Step version = 0;
    double part = 0;                               // of all that the worker has then; 0: nothing
    std::shared_ptr<const FloatBuffer> letters{};  // mixed
  };
  // Null where its last visit was another one.
  const Found* foundBy(const GossipVisit& visit) const;

  const GossipShares& shares() const { return shares_; }

 private:
  struct Box {
    FloatBuffer letters{};  // nothing: none
    std::int64_t lastVisit = 0;
    Found found{};
  };
  void deliver(OwnerId to, FloatBuffer letter, double part);

  GossipShares shares_;
  std::shared_ptr<BufferPool> pool_;
  std::map<OwnerId, Box> boxes_;
};

}  // namespace cohort
