#include "train/older_names.h"

#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "train/config_file.h"

namespace cohort {
namespace {

// As flags: what they give, and what they say.
struct Outcome {
  GivenSettings given;
  std::vector<std::string> notes;
};

Outcome translate(const std::vector<std::pair<std::string, std::string>>& flags, GivenSettings given = {}) {
  std::vector<OlderSetting> older;
  for (const auto& [name, value] : flags) older.push_back({name, {value}, "--" + name});
  Outcome outcome{std::move(given), {}};
  translateOlderNames(older, outcome.given, outcome.notes);
  return outcome;
}

RunConfig resolve(const std::string& yaml, const std::optional<std::string>& stored = std::nullopt) {
  return resolveConfig(builtinNetworks(), stored, settingsFromYaml(yaml, "old.yaml"));
}

TEST(OlderNames, NeverHideASetting) {
  std::set<std::string_view> names;
  for (const OlderName& row : olderNames()) {
    EXPECT_FALSE(isSetting(row.name)) << row.name;
    EXPECT_EQ(row.name.find('_'), std::string_view::npos) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands in the table twice";
    EXPECT_TRUE(row.setting.empty() || row.setting == kJobDirectory || isSetting(row.setting)) << row.name;
    const bool needsText = row.kind == OlderName::Kind::Accepted || row.kind == OlderName::Kind::Noted;
    EXPECT_EQ(needsText, !row.text.empty()) << row.name;
    EXPECT_EQ(findOlderName(row.name), &row);
  }
  EXPECT_EQ(findOlderName("batch-size"), nullptr);
}

TEST(OlderNames, AreSettingsOfToday) {
  const struct {
    const char *name, *value, *setting, *today;
  } cases[] = {{"checkpoint-num-steps", "500", "checkpoint-every", "500"},
               {"batch-num", "96", "train-steps", "96"},
               {"train-batch-size", "64", "batch-size", "64"},
               {"learning-rate", "0.1", "lr", "0.1"},
               {"num-intra-threads", "4", "threads", "4"},
               {"work-dir", "w", "job-dir", "w"},
               {"model-dir", "m", "job-dir", "m"},
               {"log-dir", "l", "job-dir", "l"},
               {"weights-dir", "x", "job-dir", "x"},
               {"num-layers", "44", "network", "resnet44"},
               {"use-distortion-for-training", "True", "transforms", "pad-crop:4,flip"},
               {"use-distortion-for-training", "false", "transforms", "none"},
               {"n-epochs", "70", "epochs", "70"},
               {"lr-step", "20,40,60", "schedule", "piecewise:20=0.1,40=0.01,60=0.001"},
               {"use-nesterov-momentum", "true", "optimizer", "nesterov"},
               {"use-nesterov-momentum", "false", "optimizer", "momentum"},
               {"use-momentum", "false", "optimizer", "sgd"},
               {"name", "alexnet", "network", "alexnet-lrn"},
               {"name", "vggnet", "network", "vgg16"},
               {"name", "googlenet", "network", "googlenet"},
               {"image-mean", "img_mean", "normalize", "mean-image"},
               {"image-mean", "RGB_mean", "normalize", "dataset"},
               {"input-width", "227", "image-size", "227"},
               {"n-softmax-out", "10", "classes", "10"}};
  for (const auto& c : cases) {
    const Outcome outcome = translate({{c.name, c.value}});
    EXPECT_EQ(outcome.given, (GivenSettings{{c.setting, {c.today}}})) << c.name;
    EXPECT_TRUE(outcome.notes.empty()) << c.name;
  }
}

TEST(OlderNames, ASwitchSaidWhetherWorkersWaitForEachOther) {
  for (const auto& [text, rule] : std::vector<std::pair<std::string, std::string>>{
           {"true", "bsp"}, {"True", "bsp"}, {"false", "async"}, {"no", "async"}, {"ssp", "ssp"}}) {
    EXPECT_EQ(todaysValue("sync", text), rule) << text;
  }
  EXPECT_EQ(resolve("sync: false").sync, "async");
}

TEST(OlderNames, WhatIsHereAlreadyIsAcceptedInSilence) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"num-gpus", "0"},
                                                        {"lr-policy", "step"},
                                                        {"train-mode", "cdd"},
                                                        {"variable-strategy", "CPU"},
                                                        {"eval", "False"}}) {
    const Outcome outcome = translate({{name, value}});
    EXPECT_TRUE(outcome.given.empty() && outcome.notes.empty()) << name;
  }
}

TEST(OlderNames, WhatIsNotHereIsRefusedWithASentence) {
  const struct {
    const char *name, *value, *sentence;
  } cases[] = {{"num-gpus", "2", "--num-gpus 2 is not possible"},
               {"mode", "3dev",
                "--mode 3dev is not known; it is 1dev, 2dev-data, 2dev-model, 2dev-model-data, 4dev-data, "
                "4dev-model or 4dev-model-data"},
               {"lr-policy", "auto", "--lr-policy auto is not possible yet"},
               {"sync-freq", "10", "--sync-freq 10 is not possible: give --sync local"},
               {"train-mode", "x", "--train-mode x is not possible: the rules here are bsp, local and "},
               {"eval", "true", "--eval is a command of its own: cohort eval"},
               {"num-layers", "many", "--num-layers many is no number"},
               {"train-batch-size", "ten", "--train-batch-size takes a whole number, not 'ten'"},
               {"use-nesterov-momentum", "2", "--use-nesterov-momentum 2 is neither"},
               {"name", "cnncifar10", "--name cnncifar10 is no network here"},
               {"dir-head", "/x", "--dir-head /x needs prepared files"},
               {"lr-step", "often", "An epoch of the schedule"}};
  for (const auto& c : cases) {
    const std::string error = errorOf<UsageError>([&] { translate({{c.name, c.value}}); });
    EXPECT_EQ(error.substr(0, std::string(c.sentence).size()), c.sentence) << error;
  }
}

TEST(OlderNames, WhatChangesNothingIsSaid) {
  for (const char* name :
       {"eval-batch-size", "redirect-outerr", "num-inter-threads", "snapshot-freq", "exch-strategy"}) {
    const Outcome outcome = translate({{name, "32"}});
    EXPECT_TRUE(outcome.given.empty()) << name;
    ASSERT_EQ(outcome.notes.size(), 1U) << name;
    EXPECT_EQ(outcome.notes[0].find(std::string("--") + name + " has no effect: "), 0U) << outcome.notes[0];
  }
}

TEST(OlderNames, TwoNamesForOneSettingMustAgree) {
  EXPECT_EQ(translate({{"work-dir", "a"}, {"model-dir", "a"}}).given, (GivenSettings{{"job-dir", {"a"}}}));
  EXPECT_EQ(errorOf<UsageError>([] {
              translate({{"work-dir", "a"}, {"model-dir", "b"}});
            }),
            "--model-dir b is job-dir b here, but that is a already; give one of them");
  EXPECT_MENTIONS(errorOf<UsageError>([] {
                    translate({{"num-layers", "8"}}, {{"network", {"alexnet"}}});
                  }),
                  "alexnet already");
  EXPECT_MENTIONS(errorOf<UsageError>([] {
                    translate({{"input-width", "227"}, {"input-height", "224"}});
                  }),
                  "227 already");
  EXPECT_MENTIONS(errorOf<UsageError>([] {
                    translate({{"use-momentum", "no"}, {"use-nesterov-momentum", "yes"}});
                  }),
                  "needs use_momentum");
  EXPECT_EQ(
      translate({{"use-momentum", "yes"}, {"use-nesterov-momentum", "yes"}}).given.at("optimizer").back(),
      "nesterov");
  EXPECT_MENTIONS(errorOf<UsageError>([] {
                    translate({{"rand-crop", "yes"}}, {{"transforms", {"flip"}}});
                  }),
                  "given too");
  EXPECT_MENTIONS(errorOf<UsageError>([] {
                    translate({{"print-info-every", "5120"}}, {{"log-every", {"3"}}});
                  }),
                  "given too");
}

TEST(OlderNames, SomeWaitForTheNetworkAndTheBatch) {
  EXPECT_EQ(resolve("print_info_every: 5120\nbatch_size: 128\n").logEvery, 40);
  EXPECT_EQ(resolve("print_info_every: 10\nbatch_size: 128\n").logEvery, 1);
  EXPECT_EQ(resolve("name: googlenet\nrand_crop: True\n").transforms, "resize:256,random-crop:224,flip");
  EXPECT_EQ(resolve("name: alexnet\nrand_crop: False\n").transforms, "resize:256,center-crop:227");
  EXPECT_EQ(resolve("num_layers: 20\nbatch_norm_decay: 0.997\nbatch_norm_epsilon: 1e-5\n").network,
            "resnet20");
  EXPECT_MENTIONS(errorOf<UsageError>([] { resolve("num_layers: 20\nbatch_norm_decay: 0.9\n"); }),
                  "old.yaml:2:1: batch_norm_decay 0.9 is not possible yet: it is 0.997 in resnet20");
  EXPECT_MENTIONS(errorOf<UsageError>([] { resolve("network: alexnet\nbatch_norm_epsilon: 1e-5\n"); }),
                  "alexnet has no batch normalisation");
  EXPECT_MENTIONS(errorOf<UsageError>([] { resolve("batch_norm_epsilon: x\n"); }), "is no number");
}

RunConfig withMode(const std::string& mode, std::vector<GivenSettings> layers = {}) {
  layers.push_back(translate({{"mode", mode}}).given);
  return resolveLayers(builtinNetworks(), std::nullopt, layers);
}

TEST(OlderNames, AModeIsSomeWorkersAndADivision) {
  const struct {
    const char* mode;
    int workers;
    const char* parallel;
  } cases[] = {{"1dev", 1, "data"},
               {"2dev-data", 2, "data"},
               {"2dev-model", 2, "model"},
               {"2dev-model-data", 2, "hybrid"},
               {"4dev-data", 4, "data"},
               {"4dev-MODEL", 4, "model"},
               {"4dev-model-data", 4, "hybrid"}};
  for (const auto& c : cases) {
    const RunConfig config = withMode(c.mode, {{{"parallel", {"model"}}, {"split", {"conv1=data"}}}});
    EXPECT_EQ(config.workers, c.workers) << c.mode;
    EXPECT_EQ(config.parallel, c.parallel) << c.mode;
    EXPECT_TRUE(config.splits.empty()) << "what is below is forgotten";
    EXPECT_EQ(config.batchSize, resolve("seed: 1").batchSize) << "of all workers together";
    EXPECT_EQ(translate({{"mode", c.mode}}).notes.size(), c.workers == 1 ? 0U : 1U) << c.mode;
  }
  EXPECT_EQ(translate({{"mode", "2dev-data"}}).notes[0],
            "--mode 2dev-data: --batch-size is the whole batch here, not one device's");
  EXPECT_EQ(withMode("2dev-data", {{{"batch-per-worker", {"20"}}}}).batchSize, 40);
  EXPECT_EQ(withMode("4dev-model", {}).workers, resolve("mode: 4dev-model\nmesh: data=2,model=2").workers);
}

TEST(OlderNames, AModeFixesTheNumberOfWorkers) {
  const std::string sentence =
      "--mode 2dev-model is for 2 workers, not 3; leave --workers out, or give --parallel model with any "
      "number";
  const GivenSettings mode = translate({{"mode", "2dev-model"}}).given;
  const GivenSettings both = translate({{"mode", "2dev-model"}}, {{"workers", {"3"}}}).given;
  const GivenSettings three{{"workers", {"3"}}};
  for (const std::vector<GivenSettings>& layers :
       std::vector<std::vector<GivenSettings>>{{mode, three}, {three, mode}, {both}}) {
    EXPECT_EQ(errorOf<UsageError>([&] { resolveLayers(builtinNetworks(), std::nullopt, layers); }), sentence);
  }
  EXPECT_EQ(withMode("2dev-model", {{{"workers", {"2"}}}}).workers, 2);
  const GivenSettings rule{{"split", {"conv1=data"}}};
  const RunConfig refined = resolveLayers(builtinNetworks(), std::nullopt, std::vector{mode, rule});
  EXPECT_EQ(refined.workers, 2);
  EXPECT_EQ(refined.parallel, "model") << "a rule for a layer refines it";
  EXPECT_EQ(refined.splits, std::vector<std::string>{"conv1=data"});
  EXPECT_EQ(
      errorOf<UsageError>([] { resolve("seed: 1\nmode: 1dev\nworkers: 2"); }),
      "old.yaml:2:1: mode 1dev is for 1 worker, not 2; leave --workers out, or give --parallel data with any "
      "number");
  EXPECT_EQ(
      errorOf<UsageError>([] {
        withMode("2dev-model", {{{"elastic", {"true"}}}});
      }),
      "--mode fixes the number of workers, which --elastic changes; use --parallel model and --workers 2");
  const std::string stored = toYaml(resolve("workers: 3"));
  EXPECT_EQ(resolve("mode: 2dev-model", stored).workers, 2) << "a run may go on with others";
}

TEST(OlderNames, ADivisionAboveAModeReplacesIt) {
  const std::vector<GivenSettings> layers{settingsFromYaml("mode: 2dev-model\n", "old.yaml"),
                                          {{"parallel", {"hybrid"}}, {"workers", {"3"}}}};
  const RunConfig config = resolveLayers(builtinNetworks(), std::nullopt, layers);
  EXPECT_EQ(config.parallel, "hybrid");
  EXPECT_EQ(config.workers, 3);
}

TEST(OlderNames, AFlagAboveAFileReplacesWhatTheFileSaid) {
  const std::vector<GivenSettings> layers{
      settingsFromYaml("print_info_every: 5120\nrand_crop: yes\nlearning_rate: 3\n", "old.yaml"),
      {{"log-every", {"7"}}, {"transforms", {"flip"}}, {"lr", {"4"}}}};
  const RunConfig config = resolveLayers(builtinNetworks(), std::nullopt, layers);
  EXPECT_EQ(config.logEvery, 7);
  EXPECT_EQ(config.transforms, "flip");
  EXPECT_EQ(config.learningRate, 4);
}

TEST(OlderNames, AnMpiTrainersWholeFileIsRead) {
  std::vector<std::string> notes;
  const GivenSettings given = settingsFromYaml(R"(
name: alexnet
sync_rule: BSP
sync_start: True
avg_freq: 1
train_mode: cdd
fp: 16
para_load: True
print_info_every: 5120
snapshot_freq: 2
shuffle: True
rand_crop: True
weight_init_seed: 23455
n_epochs: 70
learning_rate: 0.01
lr_policy: step
lr_step: [20, 40, 60]
weight_decay: 0.0005
momentum: 0.9
use_momentum: True
use_nesterov_momentum: False
resume_train: False
load_epoch: 20
batch_size: 256
)",
                                               "config.yaml", &notes);
  const RunConfig config = resolveConfig(builtinNetworks(), std::nullopt, given);
  EXPECT_EQ(config.network, "alexnet-lrn");
  EXPECT_EQ(config.optimizer, "momentum");
  EXPECT_EQ(config.momentum, 0.9);
  EXPECT_EQ(config.learningRate, 0.01);
  EXPECT_EQ(config.schedule, "piecewise:20=0.1,40=0.01,60=0.001");
  EXPECT_EQ(config.epochs, 70);
  EXPECT_EQ(config.trainSteps, 0);
  EXPECT_EQ(config.seed, 23455U);
  EXPECT_EQ(config.logEvery, 20);
  EXPECT_EQ(config.transforms, "resize:256,random-crop:227,flip");
  EXPECT_EQ(config.wire, "fp16");
  EXPECT_EQ(notes.size(), 4U) << "sync_start, para_load, snapshot_freq, load_epoch";
  for (const std::string& note : notes) EXPECT_EQ(note.find("config.yaml:"), 0U) << note;
}

TEST(OlderNames, ANewRunIsNotBegunWhereOneIs) {
  const std::string stored = toYaml(resolve("seed: 1"));
  EXPECT_NO_THROW(resolve("resume_train: True", stored));
  EXPECT_NO_THROW(resolve("resume_train: False"));
  EXPECT_MENTIONS(errorOf<UsageError>([&] { resolve("resume_train: False", stored); }),
                  "resume_train is false");
  EXPECT_MENTIONS(errorOf<UsageError>([] { resolve("resume_train: True\nload_epoch: 3"); }),
                  "newest checkpoint");
}

TEST(OlderNames, FakeDataIsSynthetic) {
  EXPECT_EQ(resolve("dataset: fake_data").dataset, "synthetic");
  EXPECT_EQ(todaysValue("network", "fake_data"), "fake_data");
}

TEST(OlderNames, PlacesInACloudAreRefused) {
  for (const char* text : {"gs://bucket", "s3://bucket/x", "data-dir=gs://b", "hdfs://n/x"}) {
    EXPECT_MENTIONS(errorOf<UsageError>([&] { refuseRemotePath(text); }), text);
  }
  for (const char* text : {"", "/data/gs:/x", "gs", "folder"}) EXPECT_NO_THROW(refuseRemotePath(text));
}

}  // namespace
}  // namespace cohort
