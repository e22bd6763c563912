// What all workers know after a step: the loss of the whole batch, summed in tree order, and what any of them wished.
//
// A worker's losses go to the first one as soon as its last forward pass is done, and the answer comes back while backward
// passes still run: agreeing takes no time of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/grain_division.h"
#include "base/grain_tree.h"
#include "base/trainable.h"
#include "comm/communicator.h"

namespace cohort {

// Bits; what one worker wishes before a step happens on all after it.
using Wishes = std::uint32_t;
inline constexpr Wishes kWishStop = 1;
inline constexpr Wishes kWishEnd = 2;  // as if the last step was reached
inline constexpr Wishes kWishCheckpoint = 4;

struct StepResult {
  LossSum loss;  // over the whole batch
  Wishes wishes = 0;
};

class StepAgreement {
 public:
  // `tag` and the one after it are its own.
  StepAgreement(Communicator& workers, const GrainTree& tree, const GrainDivision& division, int tag);

  void begin(Wishes own);
  // By any lane, once for each of the worker's grains.
  void report(GrainIndex grain, const LossSum& loss);
  // When all grains have been reported; waits for the others.
  StepResult finish();
  // By grain, after finish; on the first worker alone.
  std::vector<LossSum> losses() const;

 private:
  // A worker's message to the first one.
  struct Grain {
    LossSum loss;
    Wishes wishes = 0;
  };

  void arrived();
  std::string missing() const;
  LossSum sumOf(int node) const;

  Communicator& workers_;
  const GrainTree& tree_;
  GrainRange own_;
  std::vector<Grain> grains_;  // on the first worker, all; elsewhere only the own are filled
  StepResult result_;
  std::atomic<int> unreported_ = 0;         // own grains
  std::atomic<int> missing_ = 0;            // the first worker: messages from workers, its own included
  std::vector<std::atomic<bool>> hasCome_;  // by worker, whose message the first one has
  std::atomic<int> sending_ = 0;
  std::atomic<bool> isAgreed_ = false;
  std::vector<Communicator::Transfer*> sends_;
  std::vector<Communicator::Transfer*> receives_;
};

}  // namespace cohort
