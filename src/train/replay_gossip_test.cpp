// Workers that gossip are made up here, over stores as real servers have; what they journal must lead to the same bits.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "simulation/virtual_run.h"
#include "sync/gossip_rule.h"
#include "train/replay_engine.h"

namespace cohort {
namespace {

constexpr std::size_t kFloats = 23;
constexpr std::uint64_t kSeed = 5;
constexpr GrainRange kAllGrains{0, 3};

CenterSetup gossipSetup() {
  CenterSetup setup;
  setup.parameters.resize(2);
  setup.parameters[0].name = "a";
  setup.parameters[0].shape = {5, 4};
  setup.parameters[1].name = "b";
  setup.parameters[1].shape = {3};
  setup.epoch = {.samples = 60, .batch = 6};
  setup.grains = kAllGrains.last;
  setup.target = 100000;
  setup.rule = {.name = "gossip", .hasOwnWeights = true, .seed = kSeed};
  setup.opening = 1;
  return setup;
}

const ParameterLayout& gossipLayout() {
  static const ParameterLayout kLayout(gossipSetup().parameters);
  return kLayout;
}

std::unique_ptr<OwnState> makeGossiping() {
  ShardOptions options{.grains = kAllGrains.last};
  options.optimizer.kind = OptimizerKind::Momentum;
  options.optimizer.learningRate = 0.05;
  return std::make_unique<OwnState>(gossipLayout(), options, [] { return gossipRule(0.6, kSeed); });
}

std::vector<float> weightsAtFirst() {
  std::vector<float> weights(kFloats);
  for (std::size_t i = 0; i < kFloats; ++i) weights[i] = 0.1F * static_cast<float>(i % 7) - 0.2F;
  return weights;
}

// Depends on all weights, so that a wrong slice shows everywhere.
std::vector<LossSum> computeInvented(const Work& work, std::span<const float> weights,
                                     const ReplayEngine::TakeSums& take) {
  std::vector<float> gradient(kFloats);
  for (std::size_t i = 0; i < kFloats; ++i) {
    gradient[i] = 0.3F * weights[i] - 0.2F * weights[(i * 7 + 3) % kFloats] +
                  0.01F * static_cast<float>(work.step % 13);
  }
  take(0, gradient);  // the weights move
  return std::vector<LossSum>(static_cast<std::size_t>(work.grains.count()), {.loss = 1, .samples = 1});
}

// Servers and workers, who act in a random order. A worker visits one server after the other, and may not hear an answer: then it visits again.
class MadePost {
 public:
  explicit MadePost(int servers) {
    const std::vector<float> first = weightsAtFirst();
    for (int i = 0; i < servers; ++i) {
      Server& server = servers_.emplace_back(Server{
          .slice = sliceOfServer(kFloats, i, servers),
          .journal =
              Journal({.setup = gossipSetup(), .server = i, .servers = servers, .life = nextLife_++})});
      open(server, std::span(first).subspan(server.slice.begin, server.slice.size()), 0);
      keep(server);
    }
  }

  void run(int actions, int workers, bool withDeaths, unsigned seed) {
    std::mt19937 random(seed);
    workers_.resize(static_cast<std::size_t>(workers));
    for (int i = 0; i < actions; ++i) {
      act(workers_[random() % workers_.size()], random);
      Server& server = servers_[random() % servers_.size()];
      if (random() % 8 == 0) keep(server);
      if (withDeaths && random() % 40 == 0) die(server);
      if (withDeaths && random() % 60 == 0) leave(workers_[random() % workers_.size()]);
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
  int letters = 0;
  int unheard = 0;
  int lost = 0;  // mail that a server's death has taken

 private:
  struct Server {
    ArenaRange slice;
    Journal journal;
    std::unique_ptr<ShardStore> store{};
    std::map<OwnerId, std::int64_t> visited{};
    std::vector<float> kept{};
    ServerVersion keptVersion{};
    std::map<OwnerId, std::int64_t> keptVisited{};
    std::set<MemberId> members{};
  };
  struct Worker {
    std::unique_ptr<OwnState> own{};
    OwnerId id = 0;
    std::vector<ServerVersion> seen{};
    std::vector<ServerVersion> begunWith{};
    // Of a visit under way, or the last.
    std::int64_t number = 0;
    Step step = 0;
    std::vector<float> letter{};  // empty: none
    std::vector<std::size_t> missing{};
    std::vector<ServerVersion> found{};
    std::vector<GossipPost::Found> mail{};
  };

  static void open(Server& server, std::span<const float> weights, Step version) {
    server.store = std::make_unique<ShardStore>(gossipLayout(), gossipSetup(), server.slice);
    std::ranges::copy(weights, server.store->weights().begin());
    server.store->restore(version, StepSet(0));
  }
  static ServerVersion now(const Server& server) {
    return {server.journal.head().life, server.store->version()};
  }
  std::vector<float> look(std::vector<ServerVersion>& versions) {
    std::vector<float> weights(kFloats);
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
    worker = {.own = makeGossiping(), .id = ++lastId_};
    std::ranges::copy(look(worker.begunWith), worker.own->weights().begin());
    worker.seen = worker.begunWith;
    worker.own->begin(worker.id);
  }
  // A step, after which it visits; or a visit to one of the servers that it has not heard of.
  void act(Worker& worker, std::mt19937& random) {
    if (!worker.own) begin(worker);
    if (worker.missing.empty()) return makeStep(worker);
    const std::size_t pick = random() % worker.missing.size();
    const std::size_t index = worker.missing[pick];
    Server& server = servers_[index];
    visit(worker, server);
    if (random() % 6 == 0) {
      ++unheard;
      return;
    }
    const GossipPost::Found* found = server.store->post().foundBy({worker.id, worker.number});
    if (found == nullptr) ++lost;
    worker.found[index] = {now(server).life, found == nullptr ? server.store->version() : found->version};
    worker.mail[index] = found == nullptr ? GossipPost::Found{} : *found;
    worker.missing.erase(worker.missing.begin() + static_cast<std::ptrdiff_t>(pick));
    if (!worker.missing.empty()) return;
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      const GossipPost::Found& mail = worker.mail[s];
      if (mail.part > 0) worker.own->readMail(servers_[s].slice, mail.letters->span(), mail.part);
    }
    worker.seen = worker.found;
  }
  void makeStep(Worker& worker) {
    worker.step = nextStep_++;
    computeInvented({worker.step, kAllGrains}, worker.own->weights(), [&](int, std::span<const float> sums) {
      worker.own->shards().front().update(0, std::vector<float>(sums.begin(), sums.end()), worker.step);
    });
    worker.letter.assign(worker.own->finishStep(1) ? kFloats : 0, 0);
    if (!worker.letter.empty()) worker.own->writeLetter(worker.letter);
    letters += worker.letter.empty() ? 0 : 1;
    ++worker.number;
    worker.found.assign(servers_.size(), {});
    worker.mail.assign(servers_.size(), {});
    for (std::size_t s = 0; s < servers_.size(); ++s) worker.missing.push_back(s);
  }
  static void visit(const Worker& worker, Server& server) {
    std::int64_t& last = server.visited[worker.id];
    if (last >= worker.number) return;
    last = worker.number;
    FloatBuffer part;
    if (!worker.letter.empty()) {
      part = server.store->takeBuffer();
      std::ranges::copy(std::span(worker.letter).subspan(server.slice.begin, server.slice.size()),
                        part.data());
    }
    server.store->visit({worker.id, worker.number}, std::move(part));
    const auto member = static_cast<MemberId>(worker.id);
    if (server.members.insert(member).second)
      server.journal.add(Journal::Member{.member = member, .token = worker.id});
    const std::vector<Step> steps{worker.step};
    server.journal.add({.member = member,
                        .step = worker.step,
                        .seen = worker.seen,
                        .exchange = worker.number,
                        .steps = steps,
                        .begunWith = worker.number == 1 ? std::span<const ServerVersion>(worker.begunWith)
                                                        : std::span<const ServerVersion>()});
  }
  void leave(Worker& worker) {
    for (Server& server : servers_) {
      if (worker.own && server.store->leave(worker.id))
        server.journal.add({.member = static_cast<MemberId>(worker.id), .isLeaving = true});
    }
    worker = {};
  }
  static void keep(Server& server) {
    server.kept = {server.store->weights().begin(), server.store->weights().end()};
    server.keptVersion = now(server);
    server.keptVisited = server.visited;
  }
  // It goes on with what it has kept; of mail that is nothing. Where it led, all begin anew.
  void die(Server& server) {
    JournalHead head = server.journal.head();
    head.parent = server.keptVersion.life;
    head.version = server.keptVersion.version;
    head.life = nextLife_++;
    journals_.push_back(std::exchange(server.journal, Journal(head)));
    open(server, server.kept, head.version);
    server.visited = server.keptVisited;
    server.members.clear();
    keep(server);
    if (&server != &servers_.front()) return;
    for (Worker& worker : workers_) leave(worker);
  }

  std::vector<Server> servers_;
  std::vector<Worker> workers_;
  std::vector<Journal> journals_;
  std::uint64_t nextLife_ = 10;
  OwnerId lastId_ = 0;
  Step nextStep_ = 0;
};

std::size_t sameMoments(const ReplayPlan& plan, const MadePost& post, int desks) {
  std::size_t same = 0;
  ReplayEngine engine(
      plan, gossipLayout(),
      std::vector<ReplayEngine::Compute>(static_cast<std::size_t>(desks), computeInvented),
      {.fill = [](int,
                  ReplayEngine::State& state) { std::ranges::copy(weightsAtFirst(), state.front().data()); },
       .makeOwn = [](int) { return makeGossiping(); },
       .reached =
           [&](int moment, const ReplayEngine::State& state) {
             EXPECT_TRUE(
                 std::ranges::equal(state.front().span(), post.states[static_cast<std::size_t>(moment)]))
                 << "moment " << moment;
             ++same;
           }});
  engine.run();
  return same;
}

TEST(ReplayGossip, OfWorkersThatStay) {
  for (const int servers : {1, 3}) {
    for (const int desks : {1, 3}) {
      MadePost post(servers);
      post.run(900, 4, false, 3);
      EXPECT_GT(post.letters, 30);
      EXPECT_GT(post.unheard, 30);
      const std::vector<Journal> journals = post.takeJournals();
      const ReplayPlan plan = planReplay(journals, post.moments, {});
      EXPECT_EQ(sameMoments(plan, post, desks), post.moments.size());
    }
  }
}

TEST(ReplayGossip, OverDeathsOfWorkersAndServers) {
  int lost = 0;
  for (const int servers : {1, 2, 5}) {
    for (unsigned seed = 0; seed < 8; ++seed) {
      MadePost post(servers);
      post.run(1200, 4, true, seed);
      lost += post.lost;
      const std::vector<Journal> journals = post.takeJournals();
      const ReplayPlan plan = planReplay(journals, post.moments, {});
      EXPECT_GT(plan.lost, 0);
      EXPECT_EQ(sameMoments(plan, post, 2), post.moments.size());
    }
  }
  EXPECT_GT(lost, 0) << "an answer was not heard, and lost with its server";
}

}  // namespace
}  // namespace cohort
