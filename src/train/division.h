// One worker's part in a run whose network is divided over groups of workers: which samples it sees in which round. Private to
// train.
//
// The grains of a step are shared among the groups as among workers; a group takes as many at once as it has members: a
// round. Member m's own grain is the m-th of a round. Where the grains of a group are not a multiple of its members, its last
// round is filled up with padding; and so that all groups have as many rounds, with whole rounds of it.
#pragma once

#include <memory>
#include <vector>

#include "base/batch.h"
#include "base/float_buffer.h"
#include "base/grain_tree.h"
#include "data/prefetch.h"
#include "parallel/strategy.h"

namespace cohort {

struct Division {
  Strategy strategy;
  Mesh mesh;
  int rank = 0;

  int group() const { return rank / mesh.model; }
  int member() const { return rank % mesh.model; }
};

class Rounds {
 public:
  Rounds(int grains, const Division& division);

  // Of every worker, in every step.
  int count() const { return count_; }
  // Grains of the round that there are; they follow each other.
  GrainRange grainsOf(int round) const;
  int members() const { return members_; }
  int member() const { return member_; }

 private:
  GrainRange group_;
  int members_;
  int member_;
  int count_;
};

// A lane's rounds as batches: the worker's own grain of each, or all of it. `next` by the lane's thread, round by round, as
// they are dealt out.
class RoundBatches {
 public:
  // `lanes`: each one's rounds. The source outlives this. `isRound`: the network's input is the whole round.
  RoundBatches(const BatchSource& source, const Rounds& rounds, const std::vector<GrainRange>& lanes,
               bool isRound, Step firstStep, int threads);

  // Valid until the lane's next call.
  Batch next(int lane, Step step, int round);

 private:
  // Room for a lane's round, or for padding.
  struct Room {
    FloatBuffer images;
    std::vector<std::int32_t> labels;
  };

  Batch ownGrain(int lane, std::int64_t position, int round);
  Batch wholeRound(int lane, std::int64_t position, int round);

  Rounds rounds_;
  bool isRound_;
  std::int64_t batchSize_;
  std::int64_t grainSize_;
  std::vector<Room> rooms_;  // by lane
  std::unique_ptr<Prefetcher> prefetcher_;
};

}  // namespace cohort
