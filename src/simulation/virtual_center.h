// What all rules with a center have in common in virtual time: the real policy, the real stores of the servers, and groups of workers that
// come, fail and come back. What a group does with its work is the rule's.
//
// A group is one member of the center: often one worker, otherwise some that compute every work together. Its first worker speaks with the
// servers, and gives each order to the others, with the weights where they are new. When all have it, each computes its part of the grains; when
// the last one has, their sums meet in a ring all-reduce (VirtualNetwork::ringTime). A worker that fails takes its group away.
//
// The first server hears that a group has left when all that it had sent before has come. When all its workers are back, it joins as a new
// member.
#pragma once

#include <map>
#include <memory>

#include "base/grain_tree.h"
#include "center/policy.h"
#include "center/setup.h"
#include "center/shard_store.h"
#include "simulation/virtual_run.h"
#include "simulation/work_queue.h"

namespace cohort {

class VirtualCenter : public VirtualRun {
 public:
  std::optional<Progress> advance() override;
  void halt() override { decide(Halted{}); }
  VirtualTime now() const override { return cluster_.queue.now(); }
  void copyState(std::span<float> weights, std::span<const Shard::Slot> slots) override;
  VirtualOutcome outcome() const override;

 protected:
  // `weights` and `slots` are what the run begins with. The workbench outlives this.
  VirtualCenter(const CenterSetup& setup, const VirtualPlace& place, std::span<const float> weights,
                std::span<const Shard::Slot> slots, Workbench& workbench);

  struct Presence {
    MemberId member = -1;
    int life = 0;         // what was sent to an earlier one is not heard
    int away = 0;         // its workers that have failed and are not back
    bool isOver = false;  // one of them never comes back
    VirtualTime downSince = 0;

    bool isUp() const { return away == 0; }
  };
  // By server: its weights at a moment.
  struct Slice {
    std::shared_ptr<const FloatBuffer> floats;
    Step version = 0;
  };

  // A rule's: a group joins; it has failed, and all that it had is gone; the first server's decisions.
  virtual void hasJoined(int group) = 0;
  virtual void hasFailed(int group) = 0;
  virtual void decided(const Assign& assign) = 0;
  virtual void decided(const Commit& commit) = 0;
  virtual void decidedEnd() {}
  // The servers hear that it is gone.
  virtual void hasLeft(MemberId /*member*/) {}

  // All groups join, and their workers' failures are planned.
  void begin();
  int groupCount() const { return static_cast<int>(presences_.size()); }
  const Presence& presenceOf(int group) const { return presences_[static_cast<std::size_t>(group)]; }
  bool isThere(int group, int life) const { return presenceOf(group).life == life; }
  int groupOf(MemberId member) const { return groupOf_[static_cast<std::size_t>(member)]; }
  ShardStore& store(int server) { return *stores_[static_cast<std::size_t>(server)]; }
  int serverCount() const { return static_cast<int>(stores_.size()); }
  std::uint64_t bytesOf(int server) const;
  // Of the worker that speaks for the group.
  int hostOf(int group) const { return cluster_.hostOf(firstOf(group)); }
  VirtualTime latency(int group, int server) const {
    return cluster_.network.latency(hostOf(group), cluster_.hostOfServer(server));
  }

  // The group computes the job's work, with weights that its first worker alone has where they are new; `done` when all have, unless the group
  // fails before.
  void compute(int group, const std::shared_ptr<WorkQueue::Job>& job, bool hasNewWeights,
               const EventQueue::Action& done);
  // What it was given to compute is lost.
  void lose(int group);
  // All of its workers had nothing to compute for so long.
  void addWaiting(int group, VirtualTime time);

  // Between these, what a member sends is under way: meanwhile it has not left.
  void beginSending(MemberId member) { ++sending_[member]; }
  void endSending(int group, MemberId member, int life);
  // The first server hears that a work is finished. False where it came too late.
  bool finish(MemberId member, const Work& work, std::span<const LossSum> losses);
  void decide(const Event& event);
  void tellLosses(Step step);

  CenterSetup setup_;
  Acceptance acceptance_;
  ParameterLayout layout_;
  GrainTree tree_;
  VirtualCluster cluster_;
  WorkQueue works_;
  Step done_ = 0;

 private:
  // Of a worker. While its group is down it is away, or waits for those that are.
  struct Health {
    bool isAway = false;
    VirtualTime since = 0;  // what is not tallied yet of that
    int failures = 0;
  };

  void makeStores(std::span<const float> weights, std::span<const Shard::Slot> slots);
  int firstOf(int group) const { return group * cluster_.place.groupSize; }
  std::uint64_t arenaBytes() const { return layout_.size() * sizeof(float); }
  Health& health(int worker) { return health_[static_cast<std::size_t>(worker)]; }
  void computeParts(int group, const std::shared_ptr<WorkQueue::Job>& job, const EventQueue::Action& done);
  void join(int group);
  void planOutage(int worker, VirtualTime from);
  void fail(int worker, bool isForGood);
  void comeBack(int worker);
  void tallyIdle(int worker);
  void leave(MemberId member);
  void carryOut(const std::vector<Decision>& decisions);
  void on(const Assign& assign) { decided(assign); }
  void on(const Commit& commit) { decided(commit); }
  void on(const Drop& drop);
  void on(const End& end);
  void addLosses(const Work& work, std::span<const LossSum> losses);
  [[noreturn]] void standStill() const;

  std::unique_ptr<CenterPolicy> policy_;
  std::vector<std::unique_ptr<ShardStore>> stores_;             // by server
  std::vector<Presence> presences_;                             // by group
  std::vector<Health> health_;                                  // by worker
  std::vector<int> groupOf_;                                    // by member
  std::map<MemberId, int> sending_;                             // none: no entry
  std::map<Step, std::vector<std::optional<LossSum>>> losses_;  // of steps that are not done, by grain
  LossSum untold_;
  Step told_ = 0;
  bool hasEnded_ = false;
};

}  // namespace cohort
