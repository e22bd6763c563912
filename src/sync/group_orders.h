// What a group's first worker hears from the center, told to all of its group: everybody does the same next, with the same weights.
//
// Between steps, by the thread that trains. All workers of a group make one of these in the same way.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "center/client.h"
#include "comm/communicator.h"
#include "sync/bucket_plan.h"
#include "sync/slice_gather.h"

namespace cohort {

struct GroupOrder {
  enum class Kind {
    Compute,
    Open,  // the center goes on from elsewhere: what was read ahead is another step's
    End,   // no more work
    Over,  // the run is over
    Leave  // it goes on without this group
  };
  Kind kind = Kind::Compute;
  Work work{};
  std::optional<Work> following{};  // where it is known already
  Step done = 0;                    // of the whole run
  bool isInterrupted = false;       // End: before its target, by somebody's wish
  bool isBeginning = false;         // as in CenterClient::Order
  bool hasWeights = false;          // which follow
};
static_assert(std::is_trivially_copyable_v<GroupOrder>);

class GroupOrders {
 public:
  // `weights` are all that a worker computes with. The tag and the one after it are its own.
  GroupOrders(Communicator& group, std::span<float> weights, int tag);

  // By the first worker: on return all have it, and its weights where it has some. Nothing in a group of one.
  void give(const GroupOrder& order);
  // By the others: waits for the next one.
  GroupOrder take();

 private:
  void passWeights();

  Communicator& group_;
  GroupOrder order_;
  Ownership owned_;  // of the weights: all are the first worker's
  SliceGather weights_;
  std::vector<Communicator::Transfer*> transfers_;
  std::atomic<int> underWay_ = 0;
};

}  // namespace cohort
