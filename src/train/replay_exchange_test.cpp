// Workers with weights of their own are made up here, over stores as real servers have; what they journal must lead to the same bits.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "simulation/virtual_run.h"
#include "train/replay_engine.h"

namespace cohort {
namespace {

constexpr std::size_t kSize = 23;
constexpr int kGrains = 3;

// Exchanges by what it is told of its loss: a rule that forgets something exchanges at other steps.
class Fickle : public ExchangeRule {
 public:
  explicit Fickle(double limit) : limit_(limit) {}
  bool isDue(const LocalStep& step) override {
    sum_ += step.loss + static_cast<double>(step.count % 3);
    if (sum_ < limit_) return false;
    sum_ = 0;
    return true;
  }
  void exchange(std::span<float> own, std::span<const float> center, std::span<float> change) override {
    for (std::size_t i = 0; i < own.size(); ++i) {
      change[i] = 0.3F * (own[i] - center[i]);
      own[i] -= 0.5F * change[i];
    }
  }

 private:
  double limit_;
  double sum_ = 0;
};

CenterSetup ownSetup() {
  CenterSetup setup;
  setup.parameters.resize(2);
  setup.parameters[0].name = "a";
  setup.parameters[0].shape = {5, 4};
  setup.parameters[1].name = "b";
  setup.parameters[1].shape = {3};
  setup.epoch = {.samples = 60, .batch = 6};
  setup.grains = kGrains;
  setup.target = 100000;
  setup.rule = {.name = "mine", .hasOwnWeights = true};
  setup.opening = 1;
  return setup;
}

const ParameterLayout& layout() {
  static const ParameterLayout kLayout(ownSetup().parameters);
  return kLayout;
}

std::unique_ptr<OwnState> makeOwn(double limit = 4) {
  ShardOptions options{.grains = kGrains};
  options.optimizer.kind = OptimizerKind::Momentum;
  options.optimizer.learningRate = 0.05;
  return std::make_unique<OwnState>(layout(), options, [limit] { return std::make_unique<Fickle>(limit); });
}

std::vector<float> firstWeights() {
  std::vector<float> weights(kSize);
  for (std::size_t i = 0; i < kSize; ++i) weights[i] = 0.1F * static_cast<float>(i % 7) - 0.2F;
  return weights;
}

// Depends on all weights, so that a wrong slice shows everywhere.
std::vector<LossSum> compute(const Work& work, std::span<const float> weights,
                             const ReplayEngine::TakeSums& take) {
  std::vector<float> gradient(kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    gradient[i] =
        0.3F * weights[i] - 0.2F * weights[(i * 7 + 3) % kSize] + 0.01F * static_cast<float>(work.step % 13);
  }
  const std::vector<LossSum> losses(kGrains,
                                    {.loss = 1 + std::abs(static_cast<double>(weights[1])), .samples = 1});
  take(0, gradient);  // the weights move
  return losses;
}

class MadeCenter {
 public:
  explicit MadeCenter(int servers) {
    for (int i = 0; i < servers; ++i) {
      Server& server = servers_.emplace_back(Server{
          .slice = sliceOfServer(kSize, i, servers),
          .journal = Journal({.setup = ownSetup(), .server = i, .servers = servers, .life = nextLife_++}),
          .store = {}});
      server.store = std::make_unique<ShardStore>(layout(), ownSetup(), server.slice);
      const std::vector<float> first = firstWeights();
      std::ranges::copy(std::span(first).subspan(server.slice.begin, server.slice.size()),
                        server.store->weights().begin());
      keep(i);
    }
  }

  void run(int actions, int workers, bool withDeaths, unsigned seed) {
    std::mt19937 random(seed);
    workers_.resize(static_cast<std::size_t>(workers));
    for (int i = 0; i < actions; ++i) {
      act(workers_[random() % workers_.size()], random);
      const auto server = static_cast<int>(random() % servers_.size());
      if (random() % 8 == 0) keep(server);
      if (withDeaths && random() % 25 == 0) die(server);
      if (withDeaths && random() % 30 == 0) workers_[random() % workers_.size()] = {};
      if (random() % 50 == 0) remember();
    }
    remember();
  }
  std::vector<Journal> takeJournals() {
    for (Server& server : servers_) journals_.push_back(std::move(server.journal));
    return std::move(journals_);
  }

  std::vector<CenterMoment> moments;
  std::vector<std::vector<float>> states;  // at these

 private:
  struct Server {
    ArenaRange slice;
    Journal journal;
    std::unique_ptr<ShardStore> store;
    std::vector<float> kept{};
    ServerVersion keptVersion{};
    std::set<MemberId> members{};
  };
  struct Worker {
    std::unique_ptr<OwnState> own{};
    std::uint64_t number = 0;
    std::vector<ServerVersion> begunWith{};
    std::int64_t exchanges = 0;
    std::vector<Step> steps{};
    // Of an exchange under way.
    std::vector<ServerVersion> seen{};
    std::vector<float> change = std::vector<float>(kSize);
    std::vector<std::size_t> missing{};  // servers
  };

  ServerVersion now(const Server& server) const {
    return {server.journal.head().life, server.store->version()};
  }
  std::vector<float> look(std::vector<ServerVersion>& versions) {
    std::vector<float> weights(kSize);
    versions.clear();
    for (Server& server : servers_) {
      versions.push_back(now(server));
      std::ranges::copy(server.store->weights(), weights.data() + server.slice.begin);
    }
    return weights;
  }
  void remember() {
    CenterMoment& moment = moments.emplace_back(CenterMoment{.opening = 1});
    states.push_back(look(moment.servers));
  }
  void begin(Worker& worker) {
    worker = {.own = makeOwn(), .number = ++lastNumber_};
    std::ranges::copy(look(worker.begunWith), worker.own->weights().begin());
    worker.own->begin();
  }
  // A step, and what the rule wants after it; or a part of an exchange.
  void act(Worker& worker, std::mt19937& random) {
    if (!worker.own) begin(worker);
    if (!worker.missing.empty()) {
      const std::size_t pick = random() % worker.missing.size();
      push(worker, servers_[worker.missing[pick]]);
      worker.missing.erase(worker.missing.begin() + static_cast<std::ptrdiff_t>(pick));
      if (worker.missing.empty()) worker.steps.clear();
      return;
    }
    const Step step = nextStep_++;
    std::vector<float> gradient;
    const std::vector<LossSum> losses =
        compute({step, {0, kGrains}}, worker.own->weights(), [&](int, std::span<const float> sums) {
          gradient = {sums.begin(), sums.end()};
        });
    worker.steps.push_back(step);
    const LossSum loss = sumOfLosses(GrainTree(kGrains), {losses.begin(), losses.end()});
    if (!worker.own->step(step, gradient, loss.meanLoss())) return;
    const std::vector<float> center = look(worker.seen);
    worker.own->exchange(center, worker.change);
    ++worker.exchanges;
    for (std::size_t s = 0; s < servers_.size(); ++s) worker.missing.push_back(s);
  }
  void push(const Worker& worker, Server& server) {
    FloatBuffer part = server.store->takeBuffer();
    std::ranges::copy(std::span(worker.change).subspan(server.slice.begin, server.slice.size()), part.data());
    server.store->push({.step = worker.steps.back()}, std::move(part));
    const auto member = static_cast<MemberId>(worker.number);
    if (server.members.insert(member).second)
      server.journal.add(Journal::Member{.member = member, .token = worker.number});
    server.journal.add({.member = member,
                        .step = worker.steps.back(),
                        .seen = worker.seen,
                        .exchange = worker.exchanges,
                        .steps = worker.steps,
                        .begunWith = worker.exchanges == 1 ? std::span<const ServerVersion>(worker.begunWith)
                                                           : std::span<const ServerVersion>()});
  }
  void keep(int index) {
    Server& server = servers_[static_cast<std::size_t>(index)];
    server.kept = {server.store->weights().begin(), server.store->weights().end()};
    server.keptVersion = now(server);
  }
  // It goes on with what it has kept. Where it led, all begin anew.
  void die(int index) {
    Server& server = servers_[static_cast<std::size_t>(index)];
    JournalHead head = server.journal.head();
    head.parent = server.keptVersion.life;
    head.version = server.keptVersion.version;
    head.life = nextLife_++;
    journals_.push_back(std::exchange(server.journal, Journal(head)));
    std::ranges::copy(server.kept, server.store->weights().begin());
    server.store->restore(head.version, StepSet(0));
    server.members.clear();
    keep(index);
    if (index > 0) return;
    for (Worker& worker : workers_) worker = {};
  }

  std::vector<Server> servers_;
  std::vector<Worker> workers_;
  std::vector<Journal> journals_;
  std::uint64_t nextLife_ = 10;
  std::uint64_t lastNumber_ = 0;
  Step nextStep_ = 0;
};

std::size_t replay(const ReplayPlan& plan, const MadeCenter& center, int desks, double limit = 4) {
  std::size_t same = 0;
  ReplayEngine engine(
      plan, layout(), std::vector<ReplayEngine::Compute>(static_cast<std::size_t>(desks), compute),
      {.fill = [](int,
                  ReplayEngine::State& state) { std::ranges::copy(firstWeights(), state.front().data()); },
       .makeOwn = [limit](int) { return makeOwn(limit); },
       .reached =
           [&](int moment, const ReplayEngine::State& state) {
             EXPECT_TRUE(
                 std::ranges::equal(state.front().span(), center.states[static_cast<std::size_t>(moment)]))
                 << "moment " << moment;
             ++same;
           }});
  engine.run();
  return same;
}

TEST(ReplayExchanges, OfWorkersWithWeightsOfTheirOwn) {
  for (const int servers : {1, 3}) {
    for (const int desks : {1, 3}) {
      MadeCenter center(servers);
      center.run(600, 4, false, 3);
      const std::vector<Journal> journals = center.takeJournals();
      const ReplayPlan plan = planReplay(journals, center.moments, {});
      EXPECT_GT(plan.updates, 20);
      EXPECT_GT(plan.gradients, plan.updates / servers) << "there are steps between exchanges";
      EXPECT_EQ(replay(plan, center, desks), center.moments.size());
    }
  }
}

TEST(ReplayExchanges, OverDeathsOfWorkersAndServers) {
  for (const int servers : {1, 2, 5}) {
    for (unsigned seed = 0; seed < 8; ++seed) {
      MadeCenter center(servers);
      center.run(800, 4, true, seed);
      const std::vector<Journal> journals = center.takeJournals();
      const ReplayPlan plan = planReplay(journals, center.moments, {});
      EXPECT_GT(plan.lost, 0);
      EXPECT_EQ(replay(plan, center, 2), center.moments.size());
    }
  }
}

TEST(ReplayExchanges, NeedNothingOfWhatCameLater) {
  MadeCenter center(2);
  center.run(600, 3, false, 3);
  const std::vector<Journal> journals = center.takeJournals();
  const ReplayPlan all = planReplay(journals, center.moments, {});
  const ReplayPlan first = planReplay(journals, {center.moments.front()}, {});
  EXPECT_LT(first.gradients, all.gradients);
  EXPECT_EQ(replay(first, center, 2), 1u);
}

std::string refusalOf(const std::function<void()>& what) {
  try {
    what();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(ReplayExchanges, OfAnotherRuleAreRefused) {
  MadeCenter center(1);
  center.run(300, 2, false, 3);
  const std::vector<Journal> journals = center.takeJournals();
  const ReplayPlan plan = planReplay(journals, center.moments, {});
  EXPECT_NE(refusalOf([&] { replay(plan, center, 2, 6); }).find("this program's rule wants none"),
            std::string::npos);
  EXPECT_NE(refusalOf([&] { replay(plan, center, 2, 2); }).find("this program's rule wants one"),
            std::string::npos);
}

TEST(ReplayExchanges, ThatAreMissingAreSaidSo) {
  MadeCenter center(1);
  center.run(300, 1, false, 3);
  const std::vector<Journal> whole = center.takeJournals();
  std::vector<Journal> journals;
  Journal& journal = journals.emplace_back(whole.front().head());
  journal.add(whole.front().members().front());
  for (std::size_t i = 0; i < whole.front().size(); ++i) {
    JournalUpdate update = whole.front()[i];
    if (update.exchange > 2) ++update.exchange;  // as if the third were in another file
    journal.add(update);
  }
  const std::string refusal = refusalOf([&] { planReplay(journals, center.moments, {}); });
  EXPECT_EQ(refusal.find("exchange 3 of a worker is in no journal"), 0u) << refusal;
}

}  // namespace
}  // namespace cohort
