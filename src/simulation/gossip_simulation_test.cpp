// Small clusters, against sequences of steps and letters that are driven by hand.
#include "simulation/gossip_simulation.h"

#include <gtest/gtest.h>

#include "simulation/test_bench.h"
#include "sync/gossip_rule.h"

namespace cohort {
namespace {

constexpr std::uint64_t kSeed = 3;

// A second for every work, and a network that costs nothing.
ClusterModel aSecondEach() {
  ClusterModel model;
  model.compute = {.secondsPerSample = 0, .secondsPerStep = 1};
  return model;
}

CenterSetup gossipSetup(Step target, int grains) {
  CenterSetup setup =
      TestStart::setup({.name = "gossip", .hasOwnWeights = true, .seed = kSeed}, target, grains);
  setup.optimizer = {};
  return setup;
}

std::unique_ptr<OwnState> makeGossiping(double probability, int grains) {
  static const ParameterLayout kLayout(testParameters());
  ShardOptions options{.grains = grains};
  options.optimizer = {.kind = OptimizerKind::Momentum, .learningRate = 0.125};
  return std::make_unique<OwnState>(kLayout, options, [=] { return gossipRule(probability, kSeed); });
}

struct Gossiping {
  Step target = 8;
  int grains = 2;
  double probability = 0.5;
};

struct VirtualGossip {
  VirtualGossip(const Gossiping& gossip, const ClusterModel& cluster, int workers, int servers = 1,
                int places = 1)
      : bench(gossip.grains, places),
        run(
            gossipSetup(gossip.target, gossip.grains),
            {.cluster = cluster, .source = "c.yaml", .workers = workers, .servers = servers},
            TestStart().weights, [gossip] { return makeGossiping(gossip.probability, gossip.grains); },
            bench) {}

  std::vector<std::int64_t> times() { return runToEnd(run); }

  InventedBench bench;
  GossipSimulation run;
};

// What one worker does, step by step.
class GossipByHand {
 public:
  GossipByHand(const Gossiping& gossip, OwnerId id, const std::vector<float>& center)
      : grains_(gossip.grains), id_(id), own_(makeGossiping(gossip.probability, gossip.grains)) {
    std::ranges::copy(center, own_->weights().begin());
    own_->begin(id);
  }

  void step(Step step) {
    const Work work{step, {0, grains_}};
    InventedBench bench(grains_);
    Workbench::Task task{.work = work, .isAlone = true, .weights = {own_->weights()}, .done = {}};
    task.done = [&](const Workbench::Result& result) {
      const LossSum loss = sumOfLosses(GrainTree(grains_), {result.losses.begin(), result.losses.end()});
      isDue_ = own_->step(step, result.gradients.front().sums, loss.meanLoss());
    };
    bench.compute({&task, 1});
  }
  void visit(GossipPost& post, std::vector<float>& center) {
    FloatBuffer letter;
    if (isDue_) own_->writeLetter((letter = FloatBuffer(kTestFloats)).span());
    letters += isDue_ ? 1 : 0;
    post.visit({id_, ++visits_}, 0, std::move(letter), center);
  }
  void read(const GossipPost& post) {
    const GossipPost::Found* found = post.foundBy({id_, visits_});
    if (found->part > 0) own_->readMail({0, kTestFloats}, found->letters->span(), found->part);
  }

  int letters = 0;

 private:
  int grains_;
  OwnerId id_;
  std::unique_ptr<OwnState> own_;
  std::int64_t visits_ = 0;
  bool isDue_ = false;
};

TEST(VirtualGossip, OfWorkersAlikeTheyVisitInTurn) {
  for (const int servers : {1, 2}) {
    for (const double probability : {1.0, 0.5}) {
      const Gossiping gossip{.target = 16, .probability = probability};
      VirtualGossip simulated(gossip, aSecondEach(), 2, servers);
      simulated.times();
      std::vector<float> center = TestStart().weights;
      GossipPost post(kSeed, std::make_shared<BufferPool>(kTestFloats));
      std::vector<GossipByHand> workers;
      for (OwnerId id = 1; id <= 2; ++id) workers.emplace_back(gossip, id, center);
      const std::vector<std::vector<Step>> given{{0, 1, 4, 6, 8, 10, 12, 14}, {2, 3, 5, 7, 9, 11, 13, 15}};
      for (std::size_t round = 0; round < 8; ++round) {
        for (std::size_t w = 0; w < 2; ++w) workers[w].step(given[w][round]);
        // A letter to the second is in its mail when it comes; one to the first waits for its next visit.
        for (GossipByHand& worker : workers) worker.visit(post, center);
        for (GossipByHand& worker : workers) worker.read(post);
      }
      EXPECT_GT(workers[0].letters + workers[1].letters, 4);
      EXPECT_EQ(weightsAfter(simulated.run), center);
      EXPECT_NE(center, TestStart().weights);
    }
  }
}

TEST(VirtualGossip, WithoutLettersLeavesTheCenterAlone) {
  VirtualGossip simulated({.target = 20, .probability = 0}, aSecondEach(), 3);
  simulated.times();
  EXPECT_EQ(weightsAfter(simulated.run), TestStart().weights);
  EXPECT_EQ(simulated.run.outcome().bytes, 3 * 48u) << "words cost no bytes";
}

TEST(VirtualGossip, LettersCostTheNetworkAndVisitsALatencyThereAndBack) {
  ClusterModel model = aSecondEach();
  model.links = {.latency = 0.010, .bandwidth = 1000};  // 48 bytes take 48 ms
  // Begun at 88 ms, as any with weights of their own. A step is done at 1088, the letter there at 1146, the answer at 1156: then the next step
  // begins, and the first server hears of this one at 1166.
  VirtualGossip writing({.target = 2, .grains = 1, .probability = 1}, model, 1);
  EXPECT_EQ(writing.times(), (std::vector<std::int64_t>{1166, 2234}));
  EXPECT_EQ(writing.run.outcome().bytes, (1 + 2) * 48u);
  VirtualGossip silent({.target = 2, .grains = 1, .probability = 0}, model, 1);
  EXPECT_EQ(silent.times(), (std::vector<std::int64_t>{1118, 2138}));
}

GossipShares::Share sumIn(GossipSimulation& run, int server) {
  const GossipShares::Sums sums = run.sharesOf(server);
  return sums.workers + sums.mail + sums.nobodys;
}

TEST(VirtualGossip, LosesNoShareWhoeverFails) {
  ClusterModel model = aSecondEach();
  model.links = {.latency = 0.05, .bandwidth = 200};
  model.compute.jitter = 0.3;
  model.failures = {{.who = {}, .every = 7, .back = 2}};
  VirtualGossip simulated({.target = 300, .probability = 0.7}, model, 5, 2);
  std::uint64_t nobodys = 0;
  while (simulated.run.advance()) {
    for (const int server : {0, 1}) ASSERT_EQ(sumIn(simulated.run, server), GossipShares::kAll);
    nobodys = std::max(nobodys, simulated.run.sharesOf(0).nobodys);
  }
  EXPECT_GT(simulated.run.outcome().failures, 10);
  EXPECT_GT(nobodys, 0u) << "somebody was away";
}

TEST(VirtualGossip, IsTheSameForAnyPlaces) {
  ClusterModel model = aSecondEach();
  model.links = {.latency = 0.05, .bandwidth = 200};
  model.compute.jitter = 0.3;
  model.failures = {{.who = {}, .every = 20, .back = 2}};
  const Gossiping gossip{.target = 60, .probability = 0.5};
  VirtualGossip one(gossip, model, 4, 2, 1);
  VirtualGossip three(gossip, model, 4, 2, 3);
  EXPECT_EQ(one.times(), three.times());
  EXPECT_EQ(weightsAfter(one.run), weightsAfter(three.run));
}

}  // namespace
}  // namespace cohort
