// Virtual runs with real gradients, against policy, store and desk driven by hand, and against real runs.
#include "train/virtual_training.h"

#include <deque>
#include <fstream>

#include <gtest/gtest.h>

#include "base/test_directory.h"
#include "center/shard_store.h"
#include "engine/instruction_set.h"
#include "tests/training_runs.h"
#include "train/desk.h"
#include "train/run_setup.h"

namespace cohort {
namespace {

GivenSettings settingsOf(const std::string& rule, int workers, int threads) {
  return {{"network", {"mnist-fc"}},
          {"dataset", {"synthetic"}},
          {"samples", {"100"}},
          {"test-samples", {"40"}},
          {"batch-size", {"12"}},
          {"grains", {"6"}},
          {"threads", {std::to_string(threads)}},
          {"sync", {rule}},
          {"staleness", {"1"}},
          {"virtual", {std::to_string(workers)}},
          {"train-steps", {"12"}}};
}

RunSummary runOf(const GivenSettings& settings) {
  const TestDirectory folder;
  const RunContext context;
  const JobDirectory job(folder / "job");
  Communicator alone;
  Activity activity;
  RunObserver nobody;
  const StopFlag stop = false;
  return runVirtually(context, resolveConfig(context.networks, {}, settings), job, stop,
                      std::chrono::steady_clock::now(), nobody, {.workers = alone, .activity = activity});
}

class VirtualSequence : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Rules, VirtualSequence, testing::Values("async", "ssp"),
                         [](const auto& instance) { return std::string(instance.param); });

// Works of one length and no delays: all workers in turn, each with the weights after its own last update.
TEST_P(VirtualSequence, IsWhatAHandDrives) {
  constexpr int kWorkers = 3;
  const GivenSettings settings = settingsOf(GetParam(), kWorkers, 2);
  const RunSummary run = runOf(settings);

  const RunContext context;
  RunConfig config = resolveConfig(context.networks, {}, settings);
  useInstructionSet(bestInstructionSet());
  const RunData data = openData(context, config);
  const BatchSource batches(*data.train,
                            {.batchSize = 12, .grains = 6, .seed = config.seed, .shuffle = config.shuffle});
  Desk desk(context, config, batches);
  const ShardOptions options = shardOptions(config, data.train->size());
  const TrainingState state(desk.layout(), options, config.seed, 1);
  ShardOptions slice = options;
  slice.end = state.layout.size();
  ShardStore store(state.layout, slice, Acceptance::AtOnce, false);
  std::ranges::copy(state.weights.span(), store.weights().begin());
  store.restore(0, StepSet(0));

  CenterSetup setup;
  setup.grains = 6;
  setup.target = 12;
  setup.rule = {.name = config.sync, .staleness = config.staleness};
  const std::unique_ptr<CenterPolicy> policy = makePolicy(setup, {});
  std::vector<std::deque<Work>> orders(kWorkers);
  const auto hear = [&](const Event& event) {
    for (const Decision& decision : policy->handle(event)) {
      if (const auto* assign = std::get_if<Assign>(&decision))
        orders[static_cast<std::size_t>(assign->member)].push_back(assign->work);
    }
  };
  for (MemberId member = 0; member < kWorkers; ++member) hear(Joined{member});
  std::vector<std::pair<std::shared_ptr<const FloatBuffer>, Step>> weights(kWorkers, {store.snapshot(), 0});
  while (policy->progress().done < 12) {
    std::vector<std::pair<MemberId, Work>> round;
    for (MemberId member = 0; member < kWorkers; ++member) {
      auto& own = orders[static_cast<std::size_t>(member)];
      if (own.empty()) continue;
      round.emplace_back(member, own.front());
      own.pop_front();
    }
    ASSERT_FALSE(round.empty());
    for (const auto& [member, work] : round) {
      auto& [floats, version] = weights[static_cast<std::size_t>(member)];
      const Desk::Result& result = desk.compute(work, floats->span());
      FloatBuffer gradient = store.takeBuffer();
      std::ranges::copy(result.gradients.front().sums, gradient.data());
      store.push({.step = work.step, .node = 0, .basis = version}, std::move(gradient));
      floats = store.snapshot();
      version = store.version();
      hear(Finished{member, work});
    }
  }
  EXPECT_EQ(run.weightsHash, weightsHash(store.weights()));
  EXPECT_EQ(run.inVirtualTime->outcome.time, 4 * 12 * 1000000) << "four rounds of twelve samples";
}

TEST(VirtualTraining, HasTheWeightsOfARealRunForAnyWorkersServersAndThreads) {
  GivenSettings real = settingsOf("bsp", 1, 2);
  real.erase("virtual");
  const TestDirectory job;
  const std::string expected = train(job / "job", real).weightsHash;
  for (const int workers : {1, 3, 5}) {
    for (const int servers : {0, 1, 3}) {
      GivenSettings settings = settingsOf("bsp", workers, servers == 1 ? 1 : 3);
      settings["servers"] = {std::to_string(servers)};
      EXPECT_EQ(runOf(settings).weightsHash, expected) << workers << " workers, " << servers << " servers";
    }
  }
}

GivenSettings groupsOf(int groups, int workers, const std::string& between = "async") {
  GivenSettings settings = settingsOf("group", workers, 2);
  settings["groups"] = {std::to_string(groups)};
  settings["between"] = {between};
  settings["avg-freq"] = {"2"};
  return settings;
}

TEST(VirtualGroupTraining, OfOneGroupHasTheWeightsOfBulkSynchronousTraining) {
  const std::string expected = runOf(settingsOf("bsp", 3, 2)).weightsHash;
  for (const int workers : {1, 2, 4}) {
    for (const int servers : {1, 3}) {
      GivenSettings settings = groupsOf(1, workers);
      settings["servers"] = {std::to_string(servers)};
      EXPECT_EQ(runOf(settings).weightsHash, expected) << workers << " workers, " << servers << " servers";
    }
  }
}

// Samples cost no time here: a group's step is as long as a worker's.
TEST(VirtualGroupTraining, IsThatOfAsManyWorkersWithAGroupsBatch) {
  const TestDirectory folder;
  std::ofstream(folder / "c.yaml") << "compute: {seconds-per-sample: 0, seconds-per-step: 1s}\n";
  const auto on = [&](GivenSettings settings) {
    settings["cluster"] = {(folder / "c.yaml").string()};
    settings["avg-freq"] = {"2"};
    return runOf(settings);
  };
  for (const std::string rule : {"async", "easgd"}) {
    const RunSummary workers = on(settingsOf(rule, 3, 2));
    for (const int size : {1, 2}) {
      const RunSummary groups = on(groupsOf(3, 3 * size, rule));
      EXPECT_EQ(groups.weightsHash, workers.weightsHash) << rule << ", groups of " << size;
      EXPECT_EQ(groups.inVirtualTime->outcome.time, workers.inVirtualTime->outcome.time);
      EXPECT_EQ(groups.inVirtualTime->outcome.staleness, workers.inVirtualTime->outcome.staleness);
    }
  }
}

}  // namespace
}  // namespace cohort
