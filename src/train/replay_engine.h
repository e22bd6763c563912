// Carries out a plan: timelines go on as soon as the gradients of their next update are there, and gradients are computed as soon as
// the last of their weights are. What is computed is taken by all who need it, and given up then, so that memory is taken by what
// really waits. A worker with weights of its own makes its steps as soon as the exchange before them is done, and then waits for what the next
// one sees; under gossip (`replay_own.cpp`) it waits first, for its mail. Private to train.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "base/trainable.h"
#include "center/shard_store.h"
#include "sync/own_state.h"
#include "train/replay_plan.h"

namespace cohort {

class ReplayEngine {
 public:
  using TakeSums = std::function<void(int node, std::span<const float> sums)>;
  // Computes a work's gradient, by nodes of the step's tree, and gives its losses by grain. Each is called by one thread at a time.
  // The weights may move while a whole step's sum is taken.
  using Compute = std::function<std::vector<LossSum>(const Work& work, std::span<const float> weights,
                                                     const TakeSums& take)>;

  // The weights, then the slots; each a whole arena.
  using State = std::vector<FloatBuffer>;
  struct Outlets {
    // What an opening begins with that is not computed.
    std::function<void(int opening, State& state)> fill;
    // An opening begins with this.
    std::function<void(int opening, const State& state)> opened = [](int, const State&) {};
    // What an opening's workers with weights of their own have.
    std::function<std::unique_ptr<OwnState>(int opening)> makeOwn = [](int) { return nullptr; };
    // A moment that was wanted.
    std::function<void(int moment, const State& state)> reached = [](int, const State&) {};
    // So many updates are done.
    std::function<void(std::int64_t updates)> progressed = [](std::int64_t) {};
  };
  // The plan outlives this.
  ReplayEngine(const ReplayPlan& plan, const ParameterLayout& layout, std::vector<Compute> desks,
               Outlets outlets);
  ~ReplayEngine();
  ReplayEngine(const ReplayEngine&) = delete;
  ReplayEngine& operator=(const ReplayEngine&) = delete;

  // Once. UsageError where the journals contradict each other; what the outlets and desks throw.
  void run();
  std::size_t mostBuffers() const { return mostBuffers_; }

 private:
  // Who needs a version of a timeline.
  struct Waiter {
    enum class Kind { Work, Worker, Timeline, Opening, Moment };
    Step version = 0;
    Kind kind = Kind::Work;
    int index = 0;
    int server = 0;  // which of its slices this is
  };
  struct Timeline {
    std::unique_ptr<ShardStore> store{};
    std::vector<Waiter> waiters{};  // in the order of their versions
    std::size_t served = 0;
  };
  struct Sums {
    int node = 0;
    FloatBuffer values;
  };
  struct Running {
    FloatBuffer weights{};
    int missing = 0;  // slices
    int uses = 0;
    bool isStepped = false;  // an exchange: all steps before it are made; a visit: that before it is
    bool isDone = false;
    std::vector<Sums> sums{};
    struct Mail {
      ArenaRange range;
      double part = 0;
    };
    std::vector<Mail> mail{};  // a visit: what the one before has found, in `weights`
  };
  // With weights of its own; used by one thread at a time: its works follow each other.
  struct Worker {
    std::unique_ptr<OwnState> own{};
    int missing = 0;       // slices
    std::size_t next = 0;  // of its works
  };
  struct Gathering {
    State state{};
    int missing = 0;
  };

  const ReplayTimeline& planOf(int timeline) const {
    return plan_.timelines[static_cast<std::size_t>(timeline)];
  }
  Timeline& timelineOf(int timeline) { return timelines_[static_cast<std::size_t>(timeline)]; }
  ArenaRange sliceOf(int timeline) const;
  State makeState(int opening) const;
  void addWaiters();
  void addWaiters(const std::vector<TimelinePlace>& places, Waiter waiter);

  void begin(int opening, const State& state);
  void begin(int timeline, std::span<const std::span<const float>> arenas, Step version, StepSet applied);
  void serve(int timeline);
  void give(int timeline, const Waiter& waiter);
  void giveWork(int timeline, int index);
  void giveWorker(int timeline, int index);
  void giveMail(int timeline, int index);
  bool give(int timeline, Gathering& gathering, int opening);
  bool advance(int timeline);
  void apply(int timeline, std::size_t index);
  void applyWorks(int timeline, std::size_t index);
  void applyVisit(int timeline, std::size_t index);
  void release(int index);
  bool isReady(int timeline) const;
  void requireDone() const;
  FloatBuffer takeBuffer();
  void giveBuffer(FloatBuffer buffer);

  void work(Compute& desk, const std::stop_token& stop);
  void carryOut(Compute& desk, int index, bool isStepped);
  bool isVisit(int index) const;
  void beginTurn(int index);
  bool makeStep(Compute& desk, OwnState& own, const Work& work);
  void makeSteps(Compute& desk, const ReplayWork& plan);
  void makeVisit(Compute& desk, int index);
  void exchange(int index);
  void finish(int index);

  const ReplayPlan& plan_;
  const ParameterLayout& layout_;
  Outlets outlets_;
  std::vector<Timeline> timelines_;
  std::vector<Gathering> openings_;
  std::vector<Gathering> moments_;
  std::vector<int> active_;
  std::int64_t done_ = 0;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Running> works_;  // a work's sums are its desk's until it is done
  std::vector<Worker> workers_;
  std::vector<FloatBuffer> free_;
  std::size_t buffers_ = 0;
  std::size_t mostBuffers_ = 0;
  std::deque<int> ready_;
  int computing_ = 0;
  std::exception_ptr failure_;
  std::vector<Compute> desks_;
  std::vector<std::jthread> threads_;  // the last: they end before the others do
};

}  // namespace cohort
