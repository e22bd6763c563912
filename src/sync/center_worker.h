// A worker's side of a rule with a center: it computes what it is given, alone or with the others of its group.
//
// A group is one member of the center: its first worker has the way there, and the others compute what that one tells them
// (group_orders.h).
#pragma once

#include "center/policy.h"
#include "sync/sync_rule.h"

namespace cohort {

class CenterWorker : public SyncRule {
 public:
  // The next step's work, as the center gave it. Memory is taken where it has other grains than the last.
  // `isBeginning`: of weights of its own, nothing is left of what was before (CenterClient::Order).
  virtual void take(const Work& work, bool isBeginning) = 0;
  // This worker's part of a work, which may be a later one.
  virtual GrainRange shareIn(const Work& work) const { return work.grains; }
  // Whether the weights to compute the next step with are others than the group was left with by the last one. Asked once a step,
  // of its first worker.
  virtual bool renewsWeights() { return true; }
};

}  // namespace cohort
