// Servers are made up here, with stores as real ones have, and updates in any order; what they journal must lead to the same bits.
#include "train/replay_engine.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"

namespace cohort {
namespace {

constexpr std::size_t kSize = 23;
constexpr int kGrains = 6;

CenterSetup setupOf(const std::string& rule) {
  CenterSetup setup;
  setup.config = "network: test";
  setup.parameters.resize(2);
  setup.parameters[0].name = "a";
  setup.parameters[0].shape = {5, 4};
  setup.parameters[1].name = "b";
  setup.parameters[1].shape = {3};
  setup.optimizer.kind = OptimizerKind::Momentum;
  setup.optimizer.learningRate = 0.05;
  setup.epoch = {.samples = 60, .batch = 6};
  setup.grains = kGrains;
  setup.target = 1000;
  setup.rule.name = rule;
  setup.rule.scaleRate = rule == "async";
  setup.opening = 1;
  return setup;
}

// A grain's gradient depends on all weights, so that a wrong slice shows everywhere.
std::vector<float> grainGradient(Step step, int grain, std::span<const float> weights) {
  std::vector<float> gradient(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float other = weights[(i * 7 + 3) % weights.size()];
    gradient[i] = 0.3F * weights[i] - 0.2F * other + 0.01F * static_cast<float>(step % 13) +
                  0.003F * static_cast<float>(grain);
  }
  return gradient;
}

std::vector<float> nodeGradient(const GrainTree& tree, int node, Step step, std::span<const float> weights) {
  const GrainTree::Node& n = tree.node(node);
  if (n.left < 0) return grainGradient(step, n.grains.first, weights);
  std::vector<float> sum = nodeGradient(tree, n.left, step, weights);
  const std::vector<float> right = nodeGradient(tree, n.right, step, weights);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

std::vector<LossSum> compute(const Work& work, std::span<const float> weights,
                             const ReplayEngine::TakeSums& take) {
  const GrainTree tree(kGrains);
  for (const int node : tree.cover(work.grains)) take(node, nodeGradient(tree, node, work.step, weights));
  std::vector<LossSum> losses;
  for (int grain = work.grains.first; grain < work.grains.last; ++grain)
    losses.push_back({.loss = grain + 0.1 * static_cast<double>(weights[0]), .samples = 1});
  return losses;
}

// ---- a run

using Arenas = std::vector<std::vector<float>>;

struct MadeServer {
  MadeServer(const CenterSetup& setup, int index, int count, std::uint64_t life, const Arenas& state)
      : layout(setup.parameters),
        slice(sliceOfServer(kSize, index, count)),
        journal({.setup = setup, .server = index, .servers = count, .life = life, .version = setup.step}) {
    store = std::make_unique<ShardStore>(layout, setup, slice);
    const auto part = [&](const std::vector<float>& arena) {
      return std::span(arena).subspan(slice.begin, slice.size());
    };
    std::ranges::copy(part(state[0]), store->weights().begin());
    std::ranges::copy(part(state[1]), store->slots().front().values.begin());
    store->restore(setup.step, StepSet(setup.step));
  }

  ServerVersion now() const { return {journal.head().life, store->version()}; }
  void keep() {
    kept = Kept{{store->weights().begin(), store->weights().end()},
                {store->slots().front().values.begin(), store->slots().front().values.end()},
                now(),
                store->applied()};
  }
  // The journal of the life that ends.
  Journal die(std::uint64_t life) {
    JournalHead head = journal.head();
    head.parent = kept->version.life;
    head.version = kept->version.version;
    head.life = life;
    Journal before = std::exchange(journal, Journal(head));
    std::ranges::copy(kept->weights, store->weights().begin());
    std::ranges::copy(kept->slot, store->slots().front().values.begin());
    store->restore(head.version, kept->applied);
    return before;
  }
  void push(Step step, const std::vector<ServerVersion>& seen, std::span<const float> gradient) {
    const ServerVersion& mine = seen[static_cast<std::size_t>(journal.head().server)];
    const Step basis =
        mine.life == journal.head().life ? mine.version : std::min(mine.version, journal.head().version);
    FloatBuffer part = store->takeBuffer();
    std::ranges::copy(gradient.subspan(slice.begin, slice.size()), part.data());
    if (store->push({.step = step, .node = 0, .basis = basis}, std::move(part)))
      journal.add({.member = 0, .step = step, .basis = basis, .seen = seen});
  }

  struct Kept {
    std::vector<float> weights;
    std::vector<float> slot;
    ServerVersion version;
    StepSet applied;
  };
  ParameterLayout layout;
  ArenaRange slice;
  Journal journal;
  std::unique_ptr<ShardStore> store;
  std::optional<Kept> kept;
};

struct MadeRun {
  std::vector<Journal> journals;
  std::vector<CenterMoment> moments;
  std::vector<Arenas> states;  // at these
};

Arenas firstState() {
  Arenas state(2, std::vector<float>(kSize));
  for (std::size_t i = 0; i < kSize; ++i) state[0][i] = 0.1F * static_cast<float>(i % 7) - 0.2F;
  return state;
}

class Opening {
 public:
  Opening(CenterSetup setup, int servers, const Arenas& state, std::uint64_t firstLife)
      : setup_(std::move(setup)), next_(setup_.step) {
    for (int i = 0; i < servers; ++i)
      servers_.emplace_back(setup_, i, servers, firstLife + static_cast<std::uint64_t>(i), state);
    nextLife_ = firstLife + 100;
  }

  Arenas look(CenterMoment& moment) {
    Arenas state(2, std::vector<float>(kSize));
    moment = {.opening = setup_.opening};
    for (MadeServer& server : servers_) {
      moment.servers.push_back(server.now());
      std::ranges::copy(server.store->weights(), state[0].data() + server.slice.begin);
      std::ranges::copy(server.store->slots().front().values, state[1].data() + server.slice.begin);
    }
    return state;
  }
  void remember(MadeRun& run) { run.states.push_back(look(run.moments.emplace_back())); }

  // Workers at their own pace: each looks at the servers one by one, and its gradient comes to them one by one, in any order.
  void runAlone(int updates, int workers, bool withDeaths, unsigned seed, MadeRun& run) {
    struct Worker {
      Step step = -1;
      CenterMoment seen;
      std::vector<float> gradient;
      std::vector<std::size_t> missing;  // servers that it has not pushed to
    };
    std::mt19937 random(seed);
    std::vector<Worker> all(static_cast<std::size_t>(workers));
    for (int i = 0; i < updates; ++i) {
      Worker& worker = all[random() % all.size()];
      if (worker.missing.empty()) {
        worker.step = next_++;
        const Arenas state = look(worker.seen);
        compute({worker.step, {0, kGrains}}, state[0], [&](int, std::span<const float> sums) {
          worker.gradient = {sums.begin(), sums.end()};
        });
        for (std::size_t s = 0; s < servers_.size(); ++s) worker.missing.push_back(s);
      }
      const std::size_t pick = random() % worker.missing.size();
      servers_[worker.missing[pick]].push(worker.step, worker.seen.servers, worker.gradient);
      worker.missing.erase(worker.missing.begin() + static_cast<std::ptrdiff_t>(pick));
      MadeServer& server = servers_[random() % servers_.size()];
      if (random() % 8 == 0) server.keep();
      if (withDeaths && random() % 20 == 0 && server.kept) run.journals.push_back(server.die(nextLife_++));
      if (random() % 50 == 0) remember(run);
    }
  }
  // In steps: of each, a part of the grains counts.
  void runTogether(int steps, bool isWhole, unsigned seed) {
    std::mt19937 random(seed);
    const GrainTree tree(kGrains);
    for (int i = 0; i < steps; ++i) {
      CenterMoment ignored;
      const Arenas state = look(ignored);
      const Step step = setup_.step + i;
      std::vector<GrainRange> ranges{{0, kGrains}};
      if (!isWhole && random() % 3 != 0) ranges = {{0, 2}, {static_cast<int>(3 + random() % 2), kGrains}};
      for (MadeServer& server : servers_) {
        for (const GrainRange& range : ranges) {
          for (const int node : tree.cover(range)) {
            const std::vector<float> sums = nodeGradient(tree, node, step, state[0]);
            FloatBuffer part = server.store->takeBuffer();
            std::ranges::copy(std::span(sums).subspan(server.slice.begin, server.slice.size()), part.data());
            server.store->push({.step = step, .node = node, .basis = step}, std::move(part));
          }
        }
        if (setup_.rule.name == "backup") server.store->commit(step, ranges);
        server.journal.add({.step = step,
                            .basis = step,
                            .grains = ranges.front().count() == kGrains
                                          ? std::span<const GrainRange>()
                                          : std::span<const GrainRange>(ranges)});
      }
    }
  }
  void close(MadeRun& run) {
    remember(run);
    for (MadeServer& server : servers_) run.journals.push_back(std::move(server.journal));
  }

 private:
  CenterSetup setup_;
  Step next_;  // that no worker was given
  std::vector<MadeServer> servers_;
  std::uint64_t nextLife_ = 0;
};

// ---- its replay

struct Outcome {
  std::size_t same = 0;  // moments
  std::vector<int> filled;
  std::size_t mostBuffers = 0;
};

Outcome replay(
    const ReplayPlan& plan, const MadeRun& run, int desks = 2,
    const std::function<Arenas(int)>& kept = [](int) { return firstState(); }) {
  Outcome outcome;
  const ParameterLayout layout(setupOf("async").parameters);
  ReplayEngine engine(plan, layout,
                      std::vector<ReplayEngine::Compute>(static_cast<std::size_t>(desks), compute),
                      {.fill =
                           [&](int opening, ReplayEngine::State& state) {
                             outcome.filled.push_back(opening);
                             const Arenas first = kept(opening);
                             for (std::size_t i = 0; i < state.size(); ++i)
                               std::ranges::copy(first[i], state[i].data());
                           },
                       .reached =
                           [&](int moment, const ReplayEngine::State& state) {
                             for (std::size_t i = 0; i < state.size(); ++i) {
                               EXPECT_TRUE(std::ranges::equal(
                                   state[i].span(), run.states[static_cast<std::size_t>(moment)][i]))
                                   << "moment " << moment << ", arena " << i;
                             }
                             ++outcome.same;
                           }});
  engine.run();
  outcome.mostBuffers = engine.mostBuffers();
  return outcome;
}

Outcome replay(const MadeRun& run, int desks = 2) {
  return replay(planReplay(run.journals, run.moments, {.parts = desks}), run, desks);
}

std::string refusalOf(const MadeRun& run) {
  try {
    replay(run);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(ReplayEngine, FollowsWorkersAtTheirOwnPace) {
  for (const int servers : {1, 2, 5}) {
    for (const int desks : {1, 3}) {
      MadeRun run;
      Opening opening(setupOf("async"), servers, firstState(), 10);
      opening.runAlone(300, 4, false, 7, run);
      opening.close(run);
      const Outcome outcome = replay(run, desks);
      EXPECT_EQ(outcome.same, run.moments.size());
      EXPECT_LE(outcome.mostBuffers, 12u) << "memory is taken by what waits";
    }
  }
}

TEST(ReplayEngine, ComputesOnceWhatSeveralServersApply) {
  MadeRun run;
  Opening opening(setupOf("async"), 3, firstState(), 10);
  opening.runAlone(3 * 40, 1, false, 7, run);
  opening.close(run);
  const ReplayPlan plan = planReplay(run.journals, run.moments, {});
  EXPECT_EQ(plan.updates, 3 * 40);
  EXPECT_EQ(plan.works.size(), 40u);
}

TEST(ReplayEngine, FollowsLivesThatBranch) {
  for (const int servers : {1, 3}) {
    for (unsigned seed = 0; seed < 5; ++seed) {
      MadeRun run;
      Opening opening(setupOf("async"), servers, firstState(), 10);
      opening.runAlone(400, 4, true, seed, run);
      opening.close(run);
      const ReplayPlan plan = planReplay(run.journals, run.moments, {});
      EXPECT_GT(plan.lost, 0);
      EXPECT_EQ(replay(plan, run).same, run.moments.size());
    }
  }
}

TEST(ReplayEngine, FollowsStepsOfAll) {
  for (const char* rule : {"bsp", "backup"}) {
    for (const int servers : {1, 3}) {
      MadeRun run;
      Opening opening(setupOf(rule), servers, firstState(), 10);
      opening.runTogether(30, std::string(rule) == "bsp", 3);
      opening.close(run);
      EXPECT_EQ(replay(run, 1).same, 1u);
      EXPECT_EQ(replay(run, 4).same, 1u);
    }
  }
}

// With other servers each time, from moments that are no single version.
MadeRun runWithOpenings() {
  MadeRun run;
  Arenas state = firstState();
  CenterMoment origin;
  for (int i = 0; i < 3; ++i) {
    CenterSetup setup = setupOf("async");
    setup.opening = static_cast<std::uint64_t>(5 - i);
    setup.step = i == 0 ? 0 : origin.servers.front().version;
    setup.origin = origin;
    Opening opening(setup, 3 - i, state, static_cast<std::uint64_t>(10 + i));
    opening.runAlone(100, 3, true, static_cast<unsigned>(i), run);
    state = opening.look(origin);
    const auto more = static_cast<unsigned>(9 + i);
    opening.runAlone(7, 1, false, more, run);  // which nobody has written down
    opening.close(run);
  }
  run.moments = {origin};
  run.states = {state};
  return run;
}

TEST(ReplayEngine, FollowsARunThroughItsOpenings) {
  const MadeRun run = runWithOpenings();
  const ReplayPlan plan = planReplay(run.journals, run.moments, {});
  const Outcome outcome = replay(plan, run);
  EXPECT_EQ(outcome.same, 1u);
  EXPECT_EQ(outcome.filled.size(), 1u);
  EXPECT_EQ(std::ranges::count_if(plan.openings, &ReplayOpening::isNeeded), 3);
}

TEST(ReplayEngine, BeginsWithAKeptStateWhereJournalsAreMissing) {
  MadeRun run = runWithOpenings();
  // The first opening's are gone.
  std::erase_if(run.journals, [](const Journal& journal) { return journal.head().setup.opening == 5; });
  EXPECT_NE(refusalOf(run).find("of server 0 is missing"), std::string::npos) << refusalOf(run);
  const ReplayPlan plan = planReplay(
      run.journals, run.moments, {.hasState = [](const CenterSetup& setup) { return setup.opening == 4; }});
  std::vector<std::uint64_t> begun;
  for (const ReplayOpening& opening : plan.openings) {
    if (opening.isNeeded && opening.origin.empty()) begun.push_back(opening.number);
  }
  EXPECT_EQ(begun, std::vector<std::uint64_t>{4});
}

TEST(ReplayEngine, NamesAJournalThatIsMissing) {
  MadeRun run;
  Opening opening(setupOf("async"), 2, firstState(), 10);
  opening.runAlone(100, 2, false, 1, run);
  opening.close(run);
  run.journals.pop_back();
  EXPECT_EQ(refusalOf(run),
            "the journal 0000000000000001-1-b.journal of server 1 is missing; name the folder that has it");
}

TEST(ReplayEngine, NamesAJournalThatEndsTooEarly) {
  MadeRun run;
  Opening opening(setupOf("async"), 1, firstState(), 10);
  opening.runAlone(20, 2, false, 1, run);
  opening.close(run);
  Journal shorter(run.journals.front().head());
  for (std::size_t i = 0; i < 15; ++i) shorter.add(run.journals.front()[i]);
  shorter.leaveOut(3);
  run.journals.front() = std::move(shorter);
  EXPECT_EQ(
      refusalOf(run),
      "the journal 0000000000000001-0-a.journal of server 0 ends with version 15 (3 bytes at its end are not "
      "whole), and version 20 is needed");
}

TEST(ReplayEngine, RefusesGradientsOfWeightsToCome) {
  MadeRun run;
  Journal journal({.setup = setupOf("async"), .server = 0, .servers = 1, .life = 10, .version = 0});
  const ServerVersion later{10, 1};
  journal.add({.member = 0, .step = 0, .basis = 0, .seen = std::span(&later, 1)});
  run.journals.push_back(std::move(journal));
  run.moments = {{.opening = 1, .servers = {later}}};
  run.states = {firstState()};
  EXPECT_NE(refusalOf(run).find("the journals contradict each other"), std::string::npos) << refusalOf(run);
}

TEST(ReplayEngine, RefusesAnUpdateThatWasMadeBefore) {
  MadeRun run;
  Journal journal({.setup = setupOf("async"), .server = 0, .servers = 1, .life = 10, .version = 0});
  const ServerVersion first{10, 0};
  for (int i = 0; i < 2; ++i) journal.add({.member = 0, .step = 0, .basis = 0, .seen = std::span(&first, 1)});
  run.journals.push_back(std::move(journal));
  run.moments = {{.opening = 1, .servers = {{10, 2}}}};
  run.states = {firstState()};
  EXPECT_NE(refusalOf(run).find("was made before"), std::string::npos) << refusalOf(run);
}

TEST(ReplayEngine, PassesOnWhatADeskThrows) {
  MadeRun run;
  Opening opening(setupOf("async"), 1, firstState(), 10);
  opening.runAlone(20, 2, false, 1, run);
  opening.close(run);
  const ReplayPlan plan = planReplay(run.journals, run.moments, {});
  const ParameterLayout layout(setupOf("async").parameters);
  ReplayEngine engine(
      plan, layout,
      {[](const Work&, std::span<const float>, const ReplayEngine::TakeSums&) -> std::vector<LossSum> {
        throw IoError("no sample");
      }},
      {.fill = [](int, ReplayEngine::State&) {}});
  EXPECT_THROW(engine.run(), IoError);
}

}  // namespace
}  // namespace cohort
