#include "sync/divided_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace cohort {
namespace {

const DividedPlan::Member& at(std::span<const DividedPlan::Member> members, int index) {
  return members[static_cast<std::size_t>(index)];
}

BucketPlan sharedPlan(const DividedPlan::Member& member, int workers) {
  return {member.layout, workers,
          [&](ParameterIndex parameter) { return !member.isPrivate[static_cast<std::size_t>(parameter)]; }};
}

BucketPlan privatePlan(const DividedPlan::Member& member, int groups) {
  return {member.layout, groups,
          [&](ParameterIndex parameter) { return member.isPrivate[static_cast<std::size_t>(parameter)]; }};
}

}  // namespace

DividedPlan::DividedPlan(std::span<const Member> members, int groups, int rank)
    : groups_(groups),
      members_(static_cast<int>(members.size())),
      rank_(rank),
      shared_(sharedPlan(at(members, rank % members_), groups * members_)),
      own_(privatePlan(at(members, rank % members_), groups)) {
  for (int worker = 0; worker < groups_ * members_; ++worker) {
    privates_.push_back(privatePlan(at(members, worker % members_), groups_).slicesOf(worker / members_));
    const std::vector<ArenaRange> shared = shared_.slicesOf(worker);
    std::vector<ArenaRange>& all = owned_.emplace_back();
    std::ranges::merge(shared, privates_.back(), std::back_inserter(all), {}, &ArenaRange::begin,
                       &ArenaRange::begin);
  }
}

std::vector<int> DividedPlan::ownGroup() const {
  std::vector<int> ranks(static_cast<std::size_t>(members_));
  std::iota(ranks.begin(), ranks.end(), group() * members_);
  return ranks;
}

std::vector<int> DividedPlan::counterparts() const {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(groups_));
  for (int group = 0; group < groups_; ++group) ranks.push_back(group * members_ + member());
  return ranks;
}

}  // namespace cohort
