// A server's slice of the parameters: its weights, its optimizer slots, and how members' gradients become updates.
//
// A version is the number of updates that the slice has had. Used by one thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/float_buffer.h"
#include "base/grain_tree.h"
#include "center/buffer_pool.h"
#include "center/gossip_post.h"
#include "center/lent_buffer.h"
#include "center/node_sums.h"
#include "center/setup.h"
#include "center/step_set.h"
#include "optim/shard.h"

namespace cohort {

class ShardStore {
 public:
  // `options` name the slice. Weights are zero at first: see restore(). With `scaleRate`, an update's learning rate is divided by the number of
  // updates since the weights that its gradient was computed with, where that is more than one (Zhang et al. 2016).
  ShardStore(const ParameterLayout& layout, const ShardOptions& options, Acceptance acceptance,
             bool scaleRate, Application application = Application::Optimize);
  // As a server of this run has it.
  ShardStore(const ParameterLayout& layout, const CenterSetup& setup, const ArenaRange& slice);

  // Where a gradient is put together; give it to push, or back.
  FloatBuffer takeBuffer() { return pool_->take(); }
  void freeBuffer(FloatBuffer buffer) { pool_->give(std::move(buffer)); }
  // A copy of a slot's, or of other floats of the slice's size.
  std::shared_ptr<const FloatBuffer> copyOf(std::span<const float> values);

  // The gradient of a node of a step's tree, or what a worker gives in an exchange, over the whole slice. `basis` is the version of the weights that it was computed with.
  struct Origin {
    Step step = 0;
    int node = 0;
    Step basis = 0;
  };
  // False where it came before, or too late: nothing is done. Of a step to come only AtOnce. Exchanges are all taken: two workers may have
  // made the same step, of which one died before it could say so.
  bool push(const Origin& origin, FloatBuffer gradient);
  // Under gossip, where nothing is pushed: each visit of a worker is an update. `letter` may be empty.
  void visit(const GossipVisit& visit, FloatBuffer letter);
  // The same, of a worker that is gone. False where it has not been here: nothing is done.
  bool leave(OwnerId worker);
  // Under gossip alone.
  const GossipPost& post() const { return *post_; }
  // Whether these grains of a step have come, or are in an update already.
  bool hasCome(Step step, const GrainRange& grains) const;
  // False where some of these grains have not come: nothing is done. A step that was committed before is none of them.
  bool commit(Step step, std::span<const GrainRange> grains);

  // The weights as they are now: never changed afterwards.
  std::shared_ptr<const FloatBuffer> snapshot() { return weights_.lend(); }

  ArenaRange slice() const { return {shard_.begin(), shard_.end()}; }
  Step version() const { return version_; }
  std::span<float> weights() { return weights_.span(); }
  std::vector<Shard::Slot> slots() { return shard_.slots(); }
  // After weights and slots were filled from elsewhere.
  void restore(Step version, StepSet applied);
  const StepSet& applied() const { return applied_; }
  // Updates by the number of others that came between their weights and them: 0, 1, 2-3, 4-7 …
  std::span<const std::int64_t> stalenessCounts() const { return stalenessCounts_; }
  double updateSeconds() const { return updateSeconds_; }

 private:
  void update(FloatBuffer gradient, Step staleness);
  void takeWeightsBack();

  GrainTree tree_;
  Acceptance acceptance_;
  bool scaleRate_;
  Application application_;
  std::shared_ptr<BufferPool> pool_;
  LentBuffer weights_;
  Shard shard_;
  Step version_ = 0;
  std::optional<GossipPost> post_;  // which begins anew with this store: nothing of it is kept elsewhere
  StepSet applied_;                 // AtOnce: steps whose gradient was applied
  NodeSums sums_;                   // otherwise: of the step that comes next
  std::vector<std::int64_t> stalenessCounts_;
  double updateSeconds_ = 0;
};

}  // namespace cohort
