// Rules whose workers, or groups of them, have weights of their own and exchange with a center, in virtual time: the real ExchangeRule and
// optimizer of each.
//
// The life of a group (see VirtualCenter; one worker, but for the rule group): it joins; is given work, one ahead; pulls the center's weights
// once, to begin with; and steps with its own, without the network between it and the servers. Where its rule wants an exchange after a step, it
// pulls the whole arena from all servers, pushes the change to all, and goes on when all have said that it came; then the first server hears
// that the work is finished, otherwise at once. A group that fails loses its weights and what it computes (what it has begun to push still
// comes); when it is back, it is a new member and begins with the center's weights.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "simulation/virtual_center.h"
#include "sync/own_state.h"

namespace cohort {

class ExchangeSimulation : public VirtualCenter {
 public:
  using MakeOwn = std::function<std::unique_ptr<OwnState>()>;

  // `weights` are what the center begins with. The workbench, and what `makeOwn` makes use of, outlive this.
  ExchangeSimulation(const CenterSetup& setup, const VirtualPlace& place, std::span<const float> weights,
                     MakeOwn makeOwn, Workbench& workbench);

 protected:
  // A step of a group; later what it came to. The weights move when it is computed.
  struct Job : WorkQueue::Job {
    Job(OwnState& state, const GrainTree& grains) : own(state), tree(grains) {}
    Workbench::Task task() override;

    OwnState& own;
    const GrainTree& tree;
    std::vector<LossSum> losses;
    bool isDue = false;
  };
  struct Order {
    Work work;
    VirtualTime since = 0;
  };
  struct Group {
    std::deque<Order> orders;
    std::unique_ptr<OwnState> own;  // nothing: it has not begun
    bool hasNewWeights = false;     // which its first worker alone has
    bool isBusy = false;            // it pulls, computes or exchanges
    std::shared_ptr<Job> job;       // that is not finished, nor on its way to the servers
    std::vector<Slice> slices;      // by server: the center's weights
    int missing = 0;                // servers that have not answered, or not confirmed
    VirtualTime freeAt = 0;         // when it could have begun, if there had been work
  };
  // A change on its way to all servers.
  struct Delivery {
    int group = 0;
    int life = 0;
    MemberId member = -1;
    Work work;
    std::vector<LossSum> losses;
    std::vector<FloatBuffer> change;  // by server
    std::vector<Step> basis;
    int missing = 0;              // servers that do not have it
    VirtualTime confirmedAt = 0;  // by those that have
  };

  Group& group(int index) { return groups_[static_cast<std::size_t>(index)]; }

  // After a step, which the group's job has.
  virtual void meet(int index);
  // The job is done: the first server hears of it, and the group goes on.
  void conclude(int index);
  void hasFailed(int index) override;
  // Who a member is for the servers, and for its rule.
  static OwnerId ownerOf(MemberId member) { return static_cast<OwnerId>(member) + 1; }

 private:
  void hasJoined(int index) override { group(index).freeAt = cluster_.queue.now(); }
  void decided(const Assign& assign) override;
  void decided(const Commit& commit) override;

  void tryStart(int index);
  // The center's weights, from all servers.
  void pull(int index, const std::function<void()>& then);
  void beginOwn(int index);
  void start(int index);
  void finishStep(int index);
  void exchange(int index);
  void receive(int server, const std::shared_ptr<Delivery>& delivery);
  void goOn(int index);

  MakeOwn makeOwn_;
  std::vector<Group> groups_;
  FloatBuffer center_;  // as one group sees it
  FloatBuffer change_;
};

}  // namespace cohort
