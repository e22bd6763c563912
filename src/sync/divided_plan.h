// Whose the arena is where a network is divided over groups of workers: what all workers compute is cut among all of them; what only
// one member of each group computes, among these members.
//
// A value. Worker r is member r mod M of group r div M, of D groups of M members.
#pragma once

#include <span>
#include <vector>

#include "base/parameter.h"
#include "sync/bucket_plan.h"

namespace cohort {

class DividedPlan {
 public:
  // What a member of a group computes; the same in all groups.
  struct Member {
    ParameterLayout layout;       // in the whole network's arena
    std::vector<bool> isPrivate;  // by parameter of it: no other member has these
  };

  DividedPlan(std::span<const Member> members, int groups, int rank);

  int groups() const { return groups_; }
  int members() const { return members_; }
  int group() const { return rank_ / members_; }
  int member() const { return rank_ % members_; }
  // The ranks of this worker's group, and of those who are what it is in theirs.
  std::vector<int> ownGroup() const;
  std::vector<int> counterparts() const;

  // Cuts of this worker's layout: of what all have, over all workers; of its private parameters, over its counterparts.
  const BucketPlan& shared() const { return shared_; }
  const BucketPlan& own() const { return own_; }

  // By worker: all that it applies, and the private ones of it.
  const Ownership& owned() const { return owned_; }
  const Ownership& privates() const { return privates_; }

 private:
  int groups_;
  int members_;
  int rank_;
  BucketPlan shared_;
  BucketPlan own_;
  Ownership owned_;
  Ownership privates_;
};

}  // namespace cohort
