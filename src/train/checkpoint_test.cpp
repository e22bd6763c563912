#include "train/checkpoint.h"

#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "comm/thread_transport.h"
#include "train/safetensors.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

ParameterLayout smallLayout() {
  return ParameterLayout({{.name = "fc.weight", .shape = {3, 5}, .initializer = Initializer::normal(1)},
                          {.name = "fc.bias", .shape = {3}, .initializer = Initializer::uniform(1)},
                          {.name = "bn.mean",
                           .shape = {4},
                           .initializer = {},
                           .kind = ParameterKind::RunningStatistic,
                           .statisticDecay = 0.9f}});
}

TrainingState smallState(OptimizerKind kind = OptimizerKind::Adam, double averageDecay = 0,
                         std::uint64_t seed = 1) {
  return {smallLayout(),
          {.optimizer = {.kind = kind, .learningRate = 0.1, .averageDecay = averageDecay}},
          seed,
          1};
}

// A step that moves every float, slots too.
void advance(TrainingState& state) {
  std::vector<float> gradient(state.layout.size());
  std::iota(gradient.begin(), gradient.end(), 0.25f + static_cast<float>(state.step));
  state.shards.front().update(0, gradient, state.step++);
}

std::vector<float> copyOf(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// Weights and slots as one list of bit patterns, by name.
std::map<std::string, std::vector<std::uint32_t>> bitsOf(TrainingState& state) {
  std::map<std::string, std::vector<std::uint32_t>> bits;
  const auto add = [&](const std::string& name, std::span<const float> values) {
    bits[name].resize(values.size());
    std::memcpy(bits[name].data(), values.data(), values.size_bytes());
  };
  add("weights", state.weights.span());
  for (Shard& shard : state.shards) {
    for (const Shard::Slot& slot : shard.slots())
      add(fmt::format("{}@{}", slot.name, shard.begin()), slot.values);
  }
  return bits;
}

class Checkpoint : public testing::Test {
 protected:
  std::vector<Step> stepsListed() const {
    std::vector<Step> steps;
    for (const CheckpointFile& file : store_.list()) steps.push_back(file.step);
    return steps;
  }
  // Checkpoints of steps 1 to `last`.
  TrainingState saveSteps(Step last) {
    TrainingState state = smallState();
    while (state.step < last) {
      advance(state);
      store_.saveNow(state, "{}");
    }
    return state;
  }
  std::string newest() const { return readWholeFile(store_.list().back().path); }
  void damageNewest(const std::string& contents) const { writeTestFile(store_.list().back().path, contents); }

  // What is restored now: the step (-1: nothing), with the reports of damage in `reports_`.
  Step restoredStep(TrainingState& state) {
    reports_.clear();
    const auto restored =
        store_.restoreLatest(state, [this](const std::string& what) { reports_.push_back(what); });
    if (!restored) return -1;
    EXPECT_EQ(restored->step, state.step);
    return state.step;
  }

  TestDirectory directory_;
  Communicator alone_;
  CheckpointStore store_{directory_.path(), 3, alone_};
  std::vector<std::string> reports_;
};

TEST_F(Checkpoint, GivesEveryBitOfEveryOptimizerBack) {
  for (const OptimizerKind kind : {OptimizerKind::Sgd, OptimizerKind::Momentum, OptimizerKind::Nesterov,
                                   OptimizerKind::Adagrad, OptimizerKind::RmsProp, OptimizerKind::Adam}) {
    for (const double averageDecay : {0.0, 0.99}) {
      SCOPED_TRACE(std::string(optimizerName(kind)) + (averageDecay > 0 ? " with average" : ""));
      TrainingState state = smallState(kind, averageDecay);
      for (int i = 0; i < 3; ++i) advance(state);
      const fs::path path = store_.saveNow(state, "{}");
      TrainingState other = smallState(kind, averageDecay, 99);
      ASSERT_NE(bitsOf(other), bitsOf(state));
      restoreCheckpoint(path, other);
      EXPECT_EQ(other.step, 3);
      EXPECT_EQ(bitsOf(other), bitsOf(state));
      advance(state);
      advance(other);
      EXPECT_EQ(bitsOf(other), bitsOf(state)) << "one step later";
    }
  }
}

TEST_F(Checkpoint, IsAPlainSafetensorsFile) {
  TrainingState state = smallState();
  advance(state);
  const SafetensorsReader file(store_.saveNow(state, R"({"seed": 1})"));
  EXPECT_EQ(file.path().filename(), "step-0000000001.safetensors");
  ASSERT_NE(file.find("fc.weight"), nullptr);
  EXPECT_EQ(file.find("fc.weight")->shape, (std::vector<std::int64_t>{3, 5}));
  EXPECT_NE(file.find("slot.moment1.fc.bias"), nullptr);
  EXPECT_NE(file.find("bn.mean"), nullptr);
  EXPECT_EQ(file.metadata().at("cohort.step"), "1");
  EXPECT_EQ(file.metadata().at("cohort.config"), R"({"seed": 1})");
  EXPECT_EQ(file.metadata().at("cohort.hash.weights"), weightsHash(state.weights.span()));
}

TEST_F(Checkpoint, SaysWhatConfigurationItWasWrittenWith) {
  TrainingState state = smallState();
  const std::filesystem::path path = store_.saveNow(state, "workers: 2\n");
  EXPECT_EQ(configOfCheckpoint(path), "workers: 2\n");
  std::string changed = newest();
  changed.replace(changed.find("workers: 2"), 10, "workers: 3");
  writeTestFile(path, changed);
  EXPECT_MENTIONS(errorOf<IoError>([&] { configOfCheckpoint(path); }), "configuration do not fit their hash");
}

TEST_F(Checkpoint, TheLastFewAreKept) {
  saveSteps(6);
  EXPECT_EQ(stepsListed(), (std::vector<Step>{4, 5, 6}));
}

TEST_F(Checkpoint, OtherFilesInTheFolderAreNoCheckpoints) {
  saveSteps(2);
  for (const char* name : {"step-0000000009.safetensors.tmp-1-2", "step-x.safetensors", "step-.safetensors",
                           "notes.txt", "step-12.bin"}) {
    writeTestFile(directory_ / name, "not a checkpoint");
  }
  EXPECT_EQ(stepsListed(), (std::vector<Step>{1, 2}));
  TrainingState state = smallState();
  EXPECT_EQ(restoredStep(state), 2);
  EXPECT_TRUE(reports_.empty());
}

TEST_F(Checkpoint, WithoutOneTheStateStaysAsItWas) {
  TrainingState state = smallState();
  const auto before = bitsOf(state);
  EXPECT_EQ(restoredStep(state), -1);
  EXPECT_EQ(bitsOf(state), before);
  EXPECT_TRUE(listCheckpoints("/no/such/folder").empty());
}

TEST_F(Checkpoint, ATruncatedOneIsReportedAndTheOneBeforeUsed) {
  saveSteps(3);
  const std::string whole = newest();
  for (const std::size_t length : {whole.size() - 1, whole.size() / 2, std::size_t{9}, std::size_t{0}}) {
    damageNewest(whole.substr(0, length));
    TrainingState state = smallState();
    EXPECT_EQ(restoredStep(state), 2) << "of " << length << " bytes";
    ASSERT_EQ(reports_.size(), 1u);
    EXPECT_MENTIONS(reports_[0], "step-0000000003");
  }
}

TEST_F(Checkpoint, AFlippedBitAnywhereIsNoticed) {
  TrainingState good = saveSteps(1);
  const auto before = bitsOf(good);
  advance(good);
  store_.saveNow(good, R"({"seed": 1})");
  const auto after = bitsOf(good);
  const std::string whole = newest();
  int used = 0;
  for (std::size_t byte = 0; byte < whole.size(); byte += 3) {
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ (1 << (byte % 7)));
    damageNewest(changed);
    TrainingState state = smallState();
    const Step step = restoredStep(state);
    // Harmless places exist (spaces around the header's JSON); what is used is right in every bit.
    ASSERT_EQ(bitsOf(state), step == 2 ? after : before) << "byte " << byte;
    ASSERT_TRUE(step == 1 || step == 2) << "byte " << byte << " gives step " << step;
    ASSERT_EQ(reports_.size(), step == 1 ? 1u : 0u);
    used += step == 2 ? 1 : 0;
  }
  EXPECT_LT(used, 10);
}

TEST_F(Checkpoint, WhenAllAreDamagedEachIsReported) {
  saveSteps(3);
  for (const CheckpointFile& file : store_.list()) writeTestFile(file.path, "damaged");
  TrainingState state = smallState();
  EXPECT_EQ(restoredStep(state), -1);
  EXPECT_EQ(reports_.size(), 3u);
}

TEST_F(Checkpoint, ADamagedLaterOneDoesNotPushOutTheGoodOnes) {
  saveSteps(3);
  damageNewest("damaged");
  TrainingState state = smallState();
  ASSERT_EQ(restoredStep(state), 2);
  state.step = 2;
  CheckpointStore one(directory_.path(), 1, alone_);
  one.saveNow(state, "{}");
  EXPECT_EQ(stepsListed(), (std::vector<Step>{2, 3}));
  EXPECT_EQ(restoredStep(state), 2);
}

TEST_F(Checkpoint, ABackgroundSaveKeepsTheValuesOfItsMoment) {
  TrainingState state = smallState();
  for (int i = 0; i < 20; ++i) {
    advance(state);
    const auto before = bitsOf(state);
    const Step step = state.step;
    store_.save(state, "{}");
    advance(state);
    std::ranges::fill(state.weights.span(), 7.0f);
    store_.wait();
    TrainingState restored = smallState();
    ASSERT_EQ(restoredStep(restored), step);
    ASSERT_EQ(bitsOf(restored), before);
    restoreCheckpoint(store_.list().back().path, state);
  }
  EXPECT_EQ(store_.list().size(), 3u);
}

TEST_F(Checkpoint, ABackgroundSaveIsFinishedBeforeTheStoreEnds) {
  TrainingState state = smallState();
  advance(state);
  {
    CheckpointStore store(directory_.path(), 3, alone_);
    store.save(state, "{}");
  }
  EXPECT_EQ(stepsListed(), std::vector<Step>{1});
}

TEST_F(Checkpoint, AnErrorInTheBackgroundSurfacesOnceAtTheNextCall) {
  TrainingState state = smallState();
  CheckpointStore store(directory_ / "removed", 3, alone_);
  for (const std::function<void()>& next :
       {std::function<void()>([&] { store.wait(); }), std::function<void()>([&] { store.save(state, "{}"); }),
        std::function<void()>([&] { store.saveNow(state, "{}"); })}) {
    store.save(state, "{}");
    EXPECT_THROW(next(), IoError);
    EXPECT_NO_THROW(store.wait());
  }
  fs::create_directory(directory_ / "removed");
  store.save(state, "{}");
  EXPECT_NO_THROW(store.wait()) << "the store goes on when the folder is there again";
  EXPECT_EQ(store.list().size(), 1u);
}

TEST_F(Checkpoint, WeightsThatAreNoNumbersAreNotWritten) {
  TrainingState state = saveSteps(1);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    advance(state);
    state.weights.span()[4] = bad;
    EXPECT_THROW(store_.saveNow(state, "{}"), UsageError);
    store_.save(state, "{}");
    EXPECT_THROW(store_.wait(), UsageError);
  }
  EXPECT_EQ(stepsListed(), std::vector<Step>{1});
}

TEST_F(Checkpoint, OfAnotherOptimizerOrNetworkIsRefused) {
  TrainingState state = smallState(OptimizerKind::Momentum);
  const fs::path path = store_.saveNow(state, "{}");
  TrainingState adam = smallState(OptimizerKind::Adam);
  EXPECT_THROW(restoreCheckpoint(path, adam), IoError);
  TrainingState other(ParameterLayout({{.name = "conv.weight", .shape = {2}, .initializer = {}}}), {}, 1, 1);
  EXPECT_THROW(restoreCheckpoint(path, other), IoError);
}

// Several workers, as threads: each with its slices, the same step made by all.
TEST_F(Checkpoint, OfSeveralWorkersIsTheFileOfOne) {
  TrainingState one = smallState(OptimizerKind::Adam, 0.9);
  for (int i = 0; i < 3; ++i) advance(one);
  const std::string expected = readWholeFile(store_.saveNow(one, "{}"));
  const auto bits = bitsOf(one);
  for (const int size : {2, 3, 5}) {
    const BucketPlan plan(smallLayout(), size, 8);
    const fs::path folder = directory_ / std::to_string(size);
    fs::create_directory(folder);
    ThreadHub hub(size, 1);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        Communicator workers(hub.transport(rank), 60);
        const ShardOptions options{
            .optimizer = {.kind = OptimizerKind::Adam, .learningRate = 0.1, .averageDecay = 0.9}};
        TrainingState state(smallLayout(), options, plan.slicesOf(rank), 1, 1);
        for (; state.step < 3; ++state.step) {
          std::vector<float> gradient(state.layout.size());
          std::iota(gradient.begin(), gradient.end(), 0.25f + static_cast<float>(state.step));
          for (Shard& shard : state.shards) {
            shard.update(shard.begin(),
                         std::span(gradient).subspan(shard.begin(), shard.end() - shard.begin()), state.step);
          }
        }
        CheckpointStore store(folder, 3, workers);
        store.save(state, "{}");
        store.wait();
        // What it gives back: all weights, and the own slots.
        TrainingState restored(smallLayout(), options, plan.slicesOf(rank), 7, 1);
        EXPECT_TRUE(store.restoreLatest(restored, [](const std::string&) {}));
        EXPECT_EQ(bitsOf(restored)["weights"], bits.at("weights"));
        EXPECT_EQ(restored.step, 3);
        for (std::size_t i = 0; i < state.shards.size(); ++i) {
          for (std::size_t slot = 0; slot < state.shards[i].slots().size(); ++slot) {
            EXPECT_EQ(copyOf(restored.shards[i].slots()[slot].values),
                      copyOf(state.shards[i].slots()[slot].values));
          }
        }
      });
    }
    threads.clear();
    EXPECT_EQ(readWholeFile(folder / "step-0000000003.safetensors"), expected) << size << " workers";
  }
}

TEST_F(Checkpoint, AFailureOfOneWorkerIsAllWorkers) {
  ThreadHub hub(2);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator workers(hub.transport(rank), 60);
      const BucketPlan plan(smallLayout(), 2, 8);
      TrainingState state(smallLayout(), {}, plan.slicesOf(rank), 1, 1);
      CheckpointStore store(directory_.path(), 3, workers);
      if (rank == 1)
        state.weights.span()[plan.slicesOf(1).front().begin] = std::numeric_limits<float>::infinity();
      EXPECT_THROW(store.saveNow(state, "{}"), UsageError);
      if (rank == 1) state.weights.span()[plan.slicesOf(1).front().begin] = 0;
      EXPECT_NO_THROW(store.saveNow(state, "{}")) << "and both go on";
    });
  }
}

TEST_F(Checkpoint, AForeignSafetensorsFileIsNone) {
  TrainingState state = smallState();
  std::vector<TensorToWrite> tensors;
  for (const Parameter& p : state.layout.parameters()) {
    tensors.push_back({p.name, p.shape, state.weights.span().subspan(p.offset, p.size)});
  }
  writeSafetensors(directory_ / "foreign.safetensors", tensors, {{"format", "pt"}});
  EXPECT_MENTIONS(errorOf<IoError>([&] { restoreCheckpoint(directory_ / "foreign.safetensors", state); }),
                  "no checkpoint of cohort");
}

// --init-from: any file of that format, by name.
class InitializeFrom : public testing::Test {
 protected:
  void write(const std::vector<TensorToWrite>& tensors) const { writeSafetensors(path_, tensors, {}); }
  std::string error(TrainingState& state) const {
    return errorOf<UsageError>([&] { initializeFrom(path_, state); });
  }

  std::vector<float> values_ = [] {
    std::vector<float> values(15);
    std::iota(values.begin(), values.end(), 100.0f);
    return values;
  }();
  TensorToWrite weight_{"fc.weight", {3, 5}, values_};
  TensorToWrite bias_{"fc.bias", {3}, std::span(values_).first(3)};
  TensorToWrite mean_{"bn.mean", {4}, std::span(values_).first(4)};
  TestDirectory directory_;
  fs::path path_ = directory_ / "given.safetensors";
};

TEST_F(InitializeFrom, FillsTheWeightsByNameInAnyOrderAndIgnoresOthers) {
  write({{"something.else", {2}, std::span(values_).first(2)}, mean_, bias_, weight_});
  TrainingState state = smallState(OptimizerKind::Adam, 0.9);
  initializeFrom(path_, state);
  EXPECT_EQ(copyOf(state.weights.span()),
            (std::vector<float>{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110,
                                111, 112, 113, 114, 100, 101, 102, 100, 101, 102, 103}));
  EXPECT_EQ(state.step, 0);
  EXPECT_EQ(copyOf(state.shards.front().evaluationWeights()), copyOf(state.weights.span()))
      << "the moving average starts there too";
}

TEST_F(InitializeFrom, AMissingNameIsNamed) {
  write({weight_, mean_});
  TrainingState state = smallState();
  EXPECT_MENTIONS(error(state), "no tensor called fc.bias");
}

TEST_F(InitializeFrom, AnotherShapeIsNamedWithBoth) {
  bias_.shape = {1, 3};
  write({weight_, bias_, mean_});
  TrainingState state = smallState();
  EXPECT_MENTIONS(error(state), "fc.bias has shape [1, 3] there, but [3] in this network");
}

TEST_F(InitializeFrom, AMissingFileIsAnIoError) {
  TrainingState state = smallState();
  EXPECT_THROW(initializeFrom(path_, state), IoError);
}

}  // namespace
}  // namespace cohort
