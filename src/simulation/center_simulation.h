// Rules with a center in virtual time, whose workers, or groups of them, compute with the center's weights and do what a CenterClient does.
//
// The life of a group (see VirtualCenter; one worker, but for the rule group): it joins; is given work, one ahead where the rule does so;
// pulls the weights from all servers; computes; pushes to all servers, and with the same breath asks for the weights to come (where they do
// not depend on what others decide); when all servers have the gradient, the first one hears that the work is finished. A group that fails
// loses what it computes; what it has begun to push still comes, and after that the first server hears that it has left. When it is back, it
// joins as a new member.
#pragma once

#include <deque>

#include "simulation/virtual_center.h"

namespace cohort {

class CenterSimulation : public VirtualCenter {
 public:
  // `weights` and `slots` are what the run begins with. The workbench outlives this.
  CenterSimulation(const CenterSetup& setup, const VirtualPlace& place, std::span<const float> weights,
                   std::span<const Shard::Slot> slots, Workbench& workbench);

 private:
  // A work and the weights that it is computed with; later its gradient.
  struct Job : WorkQueue::Job {
    explicit Job(CenterSimulation& owner) : simulation(owner) {}
    Workbench::Task task() override;
    void wasComputed() override;

    CenterSimulation& simulation;
    std::vector<Slice> slices;  // by server
    struct Node {
      int node = 0;
      std::vector<FloatBuffer> slices;
    };
    std::vector<Node> gradient;
    std::vector<LossSum> losses;
  };
  struct Order {
    Assign assign;
    std::optional<Commit> commit;  // the last before it: other servers hear of it with a pull
    VirtualTime since = 0;
  };
  struct Group {
    std::deque<Order> orders;
    std::optional<Work> last;
    std::shared_ptr<Job> job;  // being computed
    // The weights that were asked for.
    bool hasAsked = false;
    int ticket = 0;
    int missing = 0;  // servers that have not answered
    std::vector<Slice> slices;
    VirtualTime held = 0;    // the longest that a server let it wait for others
    VirtualTime freeAt = 0;  // when it could have begun, if there had been work
  };
  struct Pull {
    int group = 0;
    int life = 0;
    int ticket = 0;
    Step version = 0;
    VirtualTime since = 0;
  };
  // A gradient on its way to all servers.
  struct Delivery {
    std::shared_ptr<Job> job;
    int group = 0;
    int life = 0;
    int ticket = 0;  // of the pull that follows it
    MemberId member = -1;
    int missing = 0;  // servers that do not have it
    VirtualTime confirmedAt = 0;
  };

  Group& group(int index) { return groups_[static_cast<std::size_t>(index)]; }
  std::vector<Pull>& waitingAt(int server) { return waiting_[static_cast<std::size_t>(server)]; }

  void hasJoined(int index) override { group(index).freeAt = cluster_.queue.now(); }
  void hasFailed(int index) override;
  void decided(const Assign& assign) override;
  void decided(const Commit& commit) override;
  void decidedEnd() override;

  void tryStart(int index);
  void ask(int index, Step version, const std::optional<Commit>& commit, bool withLatency);
  void start(int index);
  void finishComputing(int index, const std::shared_ptr<Job>& job);
  void push(int server, const std::shared_ptr<Job>& job);
  void receive(int server, const std::shared_ptr<Delivery>& delivery);
  void confirm(int server, const std::shared_ptr<Delivery>& delivery);
  void hearFinished(const std::shared_ptr<Delivery>& delivery);

  void hearPull(int server, const Pull& pull, const std::optional<Commit>& commit);
  void answerPulls(int server);
  void answer(int server, const Pull& pull);

  std::vector<Group> groups_;
  std::vector<std::vector<Pull>> waiting_;  // by server
  std::optional<Commit> lastCommit_;
};

}  // namespace cohort
