// Groups of workers that are threads, over a real center in this process.
#include "sync/group_steps.h"

#include <array>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "center/server.h"
#include "comm/thread_transport.h"
#include "sync/center_steps.h"
#include "sync/exchange_steps.h"
#include "sync/group_orders.h"
#include "sync/test_gradients.h"
#include "sync/test_layout.h"

namespace cohort {
namespace {

using testing::Each;

constexpr int kOrdersTag = Communicator::kTags / 2;

// One rank's rule, made where its communicator is; it may have weights of its own instead of those that are offered.
using MakeRule = std::function<std::unique_ptr<CenterWorker>(CenterClient* center, Communicator& group,
                                                             std::span<float>& weights)>;
using ComputeStep =
    std::function<void(SyncRule& rule, std::span<const float> weights, Communicator& group, Step step)>;

// The first worker is the test's thread, step by step; the others do what it tells them.
class TestGroup {
 public:
  TestGroup(const std::shared_ptr<Connector>& servers, int size, std::size_t floats, const MakeRule& make,
            const ComputeStep& compute)
      : hub_(size, 1),
        compute_(compute),
        center_(servers, {.recoveryWait = 20, .name = "group"}),
        workers_(size == 1 ? std::make_unique<Communicator>()
                           : std::make_unique<Communicator>(hub_.transport(0), 60)),
        offered_(static_cast<std::size_t>(size), std::vector<float>(floats)),
        weights_(offered_.front()) {
    for (int rank = 1; rank < size; ++rank) {
      threads_.emplace_back([this, rank, make] {
        Communicator workers(hub_.transport(rank), 60);
        std::span<float> weights = offered_[static_cast<std::size_t>(rank)];
        const std::unique_ptr<CenterWorker> rule = make(nullptr, workers, weights);
        GroupOrders orders(workers, weights, kOrdersTag);
        for (GroupOrder order = orders.take(); order.kind == GroupOrder::Kind::Compute; order = orders.take())
          step(*rule, workers, weights, order);
      });
    }
    rule_ = make(&center_, *workers_, weights_);
    orders_.emplace(*workers_, weights_, kOrdersTag);
  }
  ~TestGroup() {
    orders_->give({.kind = GroupOrder::Kind::Over});
    threads_.clear();
  }
  TestGroup(const TestGroup&) = delete;
  TestGroup& operator=(const TestGroup&) = delete;

  void come(const CenterSetup& setup, const std::vector<CenterClient::Arena>& first) {
    if (!center_.join().isOpen) {
      ASSERT_TRUE(center_.open(setup, first));
    }
    center_.enter(setup, weights_);
  }
  // False where there is no more to do.
  bool step() {
    const CenterClient::Order order = center_.next();
    if (order.kind != CenterClient::Order::Kind::Compute) return false;
    const bool isRenewed = rule_->renewsWeights();
    const GroupOrder told{
        .work = order.work, .isBeginning = order.isBeginning, .hasWeights = order.isBeginning || isRenewed};
    orders_->give(told);
    step(*rule_, *workers_, weights_, told);
    return true;
  }
  std::vector<float> own() const { return {weights_.begin(), weights_.end()}; }
  std::vector<float> centers() {
    std::vector<float> floats(weights_.size());
    EXPECT_TRUE(center_.fetch({{"weights", floats}}));
    return floats;
  }

 private:
  void step(CenterWorker& rule, Communicator& group, std::span<const float> weights,
            const GroupOrder& order) const {
    rule.take(order.work, order.isBeginning);
    rule.beginStep(order.work.step, 0);
    compute_(rule, weights, group, order.work.step);
    losses(rule.finishStep());
  }
  static void losses(const StepResult& result) { EXPECT_GT(result.loss.loss, 0); }

  ThreadHub hub_;
  ComputeStep compute_;
  CenterClient center_;
  std::unique_ptr<Communicator> workers_;
  std::vector<std::vector<float>> offered_;  // weights, by rank
  std::span<float> weights_;                 // the first worker's
  std::unique_ptr<CenterWorker> rule_;
  std::optional<GroupOrders> orders_;
  std::vector<std::jthread> threads_;
};

CenterSetup setupOf(const ParameterLayout& layout, const ShardOptions& options, const CenterRule& rule,
                    Step target) {
  CenterSetup setup;
  setup.optimizer = options.optimizer;
  setup.grains = options.grains;
  setup.target = target;
  setup.rule = rule;
  setup.epoch = {.samples = 1, .batch = 1};
  for (const Parameter& parameter : layout.parameters()) setup.parameters.push_back(parameter);
  return setup;
}

// What a member computes through a center of two servers.
std::vector<float> runMember(const ParameterLayout& layout, const ShardOptions& options, int size, Step steps,
                             const MakeRule& make, int lanes) {
  CenterServer first{{.index = 0, .count = 2}};
  CenterServer second{{.index = 1, .count = 2}};
  const auto compute = [&](SyncRule& rule, std::span<const float> weights, Communicator&, Step step) {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(lanes));
    for (int lane = 0; lane < lanes; ++lane)
      threads.emplace_back([&, lane] { computeLane(rule, layout, weights, lane, step); });
  };
  TestGroup group(connectorTo({&first, &second}), size, layout.size(), make, compute);
  std::vector<float> weights(layout.size());
  initialize(layout, 1, weights);
  const std::vector<float> zeros(layout.size());
  std::vector<CenterClient::Arena> arenas{{"weights", weights}};
  for (const std::string& slot : slotNames(options.optimizer)) arenas.push_back({slot, zeros});
  group.come(setupOf(layout, options, {.name = "async"}, steps), arenas);
  Step made = 0;
  while (group.step()) ++made;
  EXPECT_EQ(made, steps);
  return group.centers();
}

TEST(GroupSteps, OneGroupThroughACenterHasTheBitsOfBulkSynchronousTraining) {
  std::mt19937 random(3);
  for (unsigned round = 0; round < 12; ++round) {
    const int size = 1 + static_cast<int>(round % 4);
    const int grains = size + static_cast<int>(random() % 7);
    const int lanes = 1 + static_cast<int>(round % 2);
    const ParameterLayout layout = someLayout(random, 700);
    const BucketPlan plan(layout, size, 1 + random() % 500);
    const GrainDivision division = GrainDivision::equal(grains, size);
    ShardOptions options;
    options.optimizer.kind = round % 4 < 2 ? OptimizerKind::Momentum : OptimizerKind::Adam;
    options.optimizer.learningRate = 0.01;
    options.grains = grains;
    const std::vector<float> weights = runMember(
        layout, options, size, 4,
        [&](CenterClient* center, Communicator& group, std::span<float>&) {
          return std::make_unique<GroupSteps>(center, group, layout, plan, division, lanes);
        },
        lanes);
    EXPECT_EQ(weights, serialRun(layout, options, grains, 4).weights) << grains << " grains on " << size;
  }
}

TEST(GroupSteps, AGroupOfOneIsAWorkerAlone) {
  std::mt19937 random(4);
  const ParameterLayout layout = someLayout(random, 700);
  const BucketPlan plan(layout, 1, 100);
  const GrainDivision division = GrainDivision::equal(5, 1);
  ShardOptions options;
  options.optimizer.learningRate = 0.01;
  options.grains = 5;
  const auto asGroup = [&](CenterClient* center, Communicator& group, std::span<float>&) {
    return std::make_unique<GroupSteps>(center, group, layout, plan, division, 2);
  };
  const auto alone = [&](CenterClient* center, Communicator&, std::span<float>&) {
    return std::make_unique<CenterSteps>(*center, layout, 5, 2);
  };
  EXPECT_EQ(runMember(layout, options, 1, 6, asGroup, 2), runMember(layout, options, 1, 6, alone, 2));
}

// ---- groups with weights of their own

// Two workers to a group, whose grains' gradients are -0.5 and -1.5 everywhere: with rate 1 a step adds 2 to each weight.
class ElasticGroup {
 public:
  ElasticGroup(const std::shared_ptr<Connector>& servers, Step every, double alpha)
      : group_(
            servers, 2, layout_.size(),
            [=, this](CenterClient* center, Communicator& workers, std::span<float>& weights) {
              return make(center, workers, weights, [=] { return elasticRule(every, alpha); });
            },
            [this](SyncRule& rule, std::span<const float>, Communicator& workers, Step) {
              rule.reportLoss(workers.rank(), {.loss = 3, .samples = 1});
              GradientSink& sink = rule.sinkFor(workers.rank());
              for (PieceIndex piece = 0; piece < static_cast<int>(layout_.pieces().size()); ++piece) {
                std::ranges::fill(sink.open(piece), workers.rank() == 0 ? -0.5F : -1.5F);
                sink.close(piece);
              }
            }) {
    const std::vector<float> zeros(layout_.size());
    CenterSetup setup = setupOf(layout_, {}, {.name = "easgd", .hasOwnWeights = true}, 100);
    setup.grains = 2;
    group_.come(setup, {{"weights", zeros}});
  }

  TestGroup& operator*() { return group_; }

 private:
  std::unique_ptr<CenterWorker> make(CenterClient* center, Communicator& workers, std::span<float>& weights,
                                     const OwnState::MakeRule& makeRule) {
    std::optional<OwnState>& state = states_[static_cast<std::size_t>(workers.rank())];
    const std::vector<ArenaRange> slices = plan_.slicesOf(workers.rank());
    state.emplace(layout_, ShardOptions{.optimizer = {.learningRate = 1}, .schedule = {}, .grains = 2},
                  makeRule, slices);
    weights = state->weights();
    return std::make_unique<ExchangeSteps>(
        center, *state, layout_, ExchangeSteps::Part{.group = workers, .plan = plan_, .division = division_});
  }

  ParameterLayout layout_{{{.name = "w", .shape = {6}, .initializer = Initializer::constant(0)}}};
  BucketPlan plan_{layout_, 2, 4};
  GrainDivision division_ = GrainDivision::equal(2, 2);
  std::array<std::optional<OwnState>, 2> states_;  // by rank
  TestGroup group_;
};

TEST(GroupExchange, GroupsAndCenterMoveToEachOther) {
  CenterServer first{{.index = 0, .count = 2}};
  CenterServer second{{.index = 1, .count = 2}};
  const std::shared_ptr<Connector> servers = connectorTo({&first, &second});
  ElasticGroup a(servers, 2, 0.25);
  EXPECT_TRUE((*a).step());
  EXPECT_THAT((*a).own(), Each(2));
  EXPECT_THAT((*a).centers(), Each(0)) << "an exchange is every second step";
  EXPECT_TRUE((*a).step());
  // 4 and 0, and a quarter of the difference.
  EXPECT_THAT((*a).own(), Each(3));
  EXPECT_THAT((*a).centers(), Each(1));
  // Who comes late begins with what the center has.
  ElasticGroup b(servers, 1, 0.5);
  EXPECT_TRUE((*b).step());
  EXPECT_THAT((*b).own(), Each(2));
  EXPECT_THAT((*b).centers(), Each(2));
  // All of the group go on from what the exchange left: had one other weights, its slices would show it.
  EXPECT_TRUE((*a).step());
  EXPECT_THAT((*a).own(), Each(5));
  EXPECT_TRUE((*a).step());
  EXPECT_THAT((*a).own(), Each(5.75));
  EXPECT_THAT((*a).centers(), Each(3.25));
  EXPECT_THAT((*b).own(), Each(2)) << "nobody else's weights move";
}

}  // namespace
}  // namespace cohort
