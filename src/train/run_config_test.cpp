#include "train/run_config.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "data/dataset.h"
#include "train/config_file.h"

namespace cohort {
namespace {

RunConfig resolve(const GivenSettings& given, const std::optional<std::string>& stored = std::nullopt) {
  return resolveConfig(builtinNetworks(), stored, given);
}

std::string usageErrorOf(const GivenSettings& given,
                         const std::optional<std::string>& stored = std::nullopt) {
  return errorOf<UsageError>([&] { resolve(given, stored); });
}

TEST(RunConfig, WithoutSettingsIsTheDefaultNetworksRecipe) {
  const RunConfig config = resolve({});
  const Recipe recipe = builtinNetworks().find("mnist-cnn").recipe;
  EXPECT_EQ(config.network, "mnist-cnn");
  EXPECT_EQ(config.dataset, recipe.dataset);
  EXPECT_EQ(config.batchSize, recipe.batchSize);
  EXPECT_EQ(config.grains, recipe.grains);
  EXPECT_EQ(config.optimizer, recipe.optimizer);
  EXPECT_EQ(config.learningRate, recipe.learningRate);
  EXPECT_EQ(config.trainSteps, recipe.trainSteps);
}

TEST(RunConfig, GivenWinsOverStoredAndStoredOverTheRecipe) {
  RunConfig stored = resolve({{"network", {"mnist-fc"}}});
  stored.learningRate = 0.5;
  stored.keep = 7;
  const RunConfig config = resolve({{"keep", {"2"}}}, toYaml(stored));
  EXPECT_EQ(config.network, "mnist-fc");
  EXPECT_EQ(config.learningRate, 0.5);
  EXPECT_EQ(config.keep, 2);
}

TEST(RunConfig, TheLastOfARepeatedSettingCountsAndListsKeepAll) {
  const RunConfig config = resolve({{"lr", {"0.1", "0.2"}}, {"param-rule", {"bias:lr=2", "fc1:decay=0"}}});
  EXPECT_EQ(config.learningRate, 0.2);
  EXPECT_EQ(config.paramRules, (std::vector<std::string>{"bias:lr=2", "fc1:decay=0"}));
}

TEST(RunConfig, ClassesStayOpenForImagesUnlessSomebodyGivesThem) {
  EXPECT_EQ(resolve({}).classes, 0);
  EXPECT_EQ(resolve({{"classes", {"10"}}}).classes, 10);
  EXPECT_EQ(resolve({{"dataset", {"synthetic"}}}).classes, 10) << "the recipe's";
  EXPECT_EQ(resolve({}, "classes: 7\n").classes, 7) << "stored";
  EXPECT_EQ(resolve({}, "train-steps: 7\n").classes, 0);
}

TEST(RunConfig, AChangeOfADefiningSettingIsRefusedWithTheDifference) {
  const std::string stored = toYaml(resolve({{"classes", {"10"}}}));
  const struct {
    const char *name, *value, *before;
  } changes[] = {{"network", "mnist-fc", "mnist-cnn"},
                 {"dataset", "synthetic", "fashion-mnist"},
                 {"image-size", "32", "28"},
                 {"channels", "3", "1"},
                 {"classes", "7", "10"},
                 {"samples", "9", "0"},
                 {"batch-size", "200", "100"},
                 {"grains", "10", "4"},
                 {"seed", "2", "1"},
                 {"optimizer", "sgd", "adam"}};
  for (const auto& change : changes) {
    const std::string message = usageErrorOf({{change.name, {change.value}}}, stored);
    EXPECT_MENTIONS(message, std::string("--") + change.name);
    EXPECT_MENTIONS(message, change.before);
    EXPECT_MENTIONS(message, change.value);
    EXPECT_MENTIONS(message, "--job-dir");
  }
}

TEST(RunConfig, ADefiningSettingGivenAsBeforeIsAccepted) {
  const RunConfig stored = resolve({{"network", {"alexnet"}}, {"batch-size", {"32"}}, {"seed", {"5"}}});
  EXPECT_EQ(resolve({{"network", {"alexnet"}}, {"batch-size", {"32"}}, {"optimizer", {"momentum"}}},
                    toYaml(stored)),
            stored);
}

TEST(RunConfig, WhatDoesNotDefineTheRunMayChange) {
  const std::string stored = toYaml(resolve({}));
  const RunConfig config = resolve(
      {{"lr", {"1e-4"}}, {"threads", {"3"}}, {"schedule", {"cosine:900"}}, {"eval-every", {"10"}}}, stored);
  EXPECT_EQ(config.learningRate, 1e-4);
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.schedule, "cosine:900");
  EXPECT_EQ(config.evalEvery, 10);
}

TEST(RunConfig, ALengthReplacesEveryLengthFromBefore) {
  RunConfig config = resolve({{"epochs", {"2.5"}}});
  EXPECT_EQ(config.epochs, 2.5);
  EXPECT_EQ(config.trainSteps, 0);
  config = resolve({{"max-time", {"2m"}}}, toYaml(config));
  EXPECT_EQ(config.maxTime, 120);
  EXPECT_EQ(config.epochs, 0);
  config = resolve({{"train-steps", {"50"}}, {"max-time", {"1h"}}}, toYaml(config));
  EXPECT_EQ(config.trainSteps, 50);
  EXPECT_EQ(config.maxTime, 3600);
  EXPECT_EQ(resolve({{"keep", {"1"}}}, toYaml(config)).trainSteps, 50) << "kept where none is given";
}

TEST(RunConfig, ARecipesMomentumGoesOnlyWithItsOptimizer) {
  EXPECT_EQ(resolve({{"network", {"alexnet"}}}).momentum, 0.9);
  EXPECT_EQ(resolve({{"network", {"alexnet"}}, {"optimizer", {"momentum"}}}).momentum, 0.9);
  EXPECT_EQ(resolve({{"network", {"alexnet"}}, {"optimizer", {"adam"}}}).momentum, std::nullopt);
  EXPECT_EQ(resolve({}).momentum, std::nullopt) << "mnist-cnn uses adam";
  EXPECT_EQ(resolve({{"network", {"alexnet"}}, {"optimizer", {"rmsprop"}}, {"momentum", {"0.3"}}}).momentum,
            0.3);
}

TEST(RunConfig, GrainsAdaptToAGivenBatchUnlessTheyAreGiven) {
  EXPECT_EQ(resolve({{"batch-size", {"6"}}}).grains, 3) << "the largest divisor up to the recipe's 4";
  EXPECT_EQ(resolve({{"batch-size", {"7"}}}).grains, 1);
  EXPECT_EQ(resolve({{"batch-size", {"64"}}}).grains, 4);
  EXPECT_EQ(resolve({{"batch-size", {"200"}}}).grains, 8) << "grains of the recipe's 25 samples";
  EXPECT_EQ(resolve({{"batch-size", {"210"}}}).grains, 7) << "the largest divisor up to 8";
  EXPECT_EQ(resolve({{"batch-size", {"6"}}, {"grains", {"6"}}}).grains, 6);
}

TEST(RunConfig, ABatchThatDoesNotDivideIsRefusedWithWhatWould) {
  const std::string message = usageErrorOf({{"batch-size", {"100"}}, {"grains", {"8"}}});
  EXPECT_MENTIONS(message, "a batch of 100 does not divide into 8 grains");
  EXPECT_MENTIONS(message, "1, 2, 4, 5, 10, 20, 25, 50");
  EXPECT_MENTIONS(message, "--batch-size 104");
}

TEST(RunConfig, ValuesThatAreNoValuesAreRefusedWithTheirFlag) {
  const std::pair<const char*, const char*> wrong[] = {{"batch-size", "ten"},
                                                       {"batch-size", "10x"},
                                                       {"batch-size", ""},
                                                       {"batch-size", "1.5"},
                                                       {"batch-size", "0"},
                                                       {"batch-size", "-4"},
                                                       {"grains", "0"},
                                                       {"image-size", "0"},
                                                       {"keep", "0"},
                                                       {"seed", "-1"},
                                                       {"seed", "1e3"},
                                                       {"lr", "fast"},
                                                       {"lr", "nan"},
                                                       {"lr", "inf"},
                                                       {"lr", "-inf"},
                                                       {"lr", ""},
                                                       {"momentum", "nan"},
                                                       {"epochs", "-1"},
                                                       {"epochs", "nan"},
                                                       {"max-time", "-5s"},
                                                       {"max-time", "nan"},
                                                       {"max-time", "soon"},
                                                       {"train-steps", "-1"},
                                                       {"eval-every", "-1"},
                                                       {"threads", "-1"},
                                                       {"threads", "257"},
                                                       {"workers", "0"},
                                                       {"lr", "-1"},
                                                       {"lr", "1e400"},
                                                       {"lr", "1e300"},
                                                       {"lr", "0x10"},
                                                       {"lr", "+1"},
                                                       {"weight-decay", "-1e-9"},
                                                       {"momentum", "1.5"},
                                                       {"average-decay", "-0.1"},
                                                       {"epochs", "1e30"},
                                                       {"max-time", "1e30h"},
                                                       {"samples", "9223372036854775807"},
                                                       {"train-steps", "9223372036854775807"},
                                                       {"data-threads", "-2"},
                                                       {"checkpoint-every", "often"},
                                                       {"parallel", "both"},
                                                       {"parallel", ""},
                                                       {"split", "conv1"},
                                                       {"split", "conv1=both"},
                                                       {"split", "=model"},
                                                       {"split", "conv(=model"},
                                                       {"mesh", "2x2"},
                                                       {"mesh", "data=0"},
                                                       {"mesh", "data=2,data=2"},
                                                       {"mesh", "data=64,model=65"},
                                                       {"keep", "4294967296"},
                                                       {"image-size", "4294967324"},
                                                       {"batch-size", "99999999999999999999"}};
  for (const auto& [name, value] : wrong) {
    const std::string message = usageErrorOf({{name, {value}}});
    EXPECT_MENTIONS(message, std::string("--") + name) << " for the value '" << value << "'";
  }
}

TEST(RunConfig, AnUnknownNetworkIsRefused) {
  EXPECT_MENTIONS(usageErrorOf({{"network", {"mnist-cn"}}}), "did you mean 'mnist-cnn'");
}

RunConfig resolveAll(const std::vector<GivenSettings>& layers,
                     const std::optional<std::string>& stored = std::nullopt) {
  return resolveLayers(builtinNetworks(), stored, layers);
}

TEST(Layers, LaterOnesWin) {
  const RunConfig config = resolveAll(
      {{{"lr", {"1"}}, {"keep", {"4"}}, {"seed", {"7"}}}, {{"lr", {"2"}}, {"keep", {"5"}}}, {{"lr", {"3"}}}});
  EXPECT_EQ(config.learningRate, 3);
  EXPECT_EQ(config.keep, 5);
  EXPECT_EQ(config.seed, 7U);
}

TEST(Layers, TheRecipeIsOfTheLastNetwork) {
  const RunConfig config =
      resolveAll({{{"network", {"alexnet"}}, {"lr", {"0.5"}}}, {{"network", {"mnist-fc"}}}});
  EXPECT_EQ(config.network, "mnist-fc");
  EXPECT_EQ(config.optimizer, "adagrad");
  EXPECT_EQ(config.learningRate, 0.5);
}

TEST(Layers, ALengthForgetsTheLengthsBelow) {
  RunConfig config = resolveAll({{{"train-steps", {"100"}}, {"max-time", {"60s"}}}, {{"epochs", {"30"}}}});
  EXPECT_EQ(config.trainSteps, 0);
  EXPECT_EQ(config.maxTime, 0);
  EXPECT_EQ(config.epochs, 30);
  config = resolveAll({{{"epochs", {"30"}}}, {}, {{"train-steps", {"7"}}}});
  EXPECT_EQ(config.trainSteps, 7);
  EXPECT_EQ(config.epochs, 0);
}

TEST(Layers, AnotherOptimizerForgetsTheMomentumBelow) {
  const GivenSettings file{{"optimizer", {"momentum"}}, {"momentum", {"0.5"}}};
  EXPECT_EQ(resolveAll({file, {{"optimizer", {"momentum"}}}}).momentum, 0.5);
  EXPECT_EQ(resolveAll({file, {{"optimizer", {"adam"}}}}).momentum, std::nullopt);
  EXPECT_EQ(resolveAll({file, {{"optimizer", {"rmsprop"}}, {"momentum", {"0.1"}}}}).momentum, 0.1);
}

TEST(Layers, GrainsFollowABatchThatIsGivenAboveThem) {
  const GivenSettings file{{"batch-size", {"64"}}, {"grains", {"8"}}};
  EXPECT_EQ(resolveAll({file}).grains, 8);
  EXPECT_EQ(resolveAll({file, {{"batch-size", {"128"}}}}).grains, 16) << "grains of the file's 8 samples";
  EXPECT_EQ(resolveAll({file, {{"batch-size", {"20"}}}}).grains, 5) << "the largest divisor up to 8";
  EXPECT_EQ(resolveAll({file, {{"batch-size", {"20"}}, {"grains", {"4"}}}}).grains, 4);
  EXPECT_EQ(resolveAll({{{"batch-size", {"6"}}}, {{"batch-size", {"100"}}}}).grains, 4)
      << "a batch that is forgotten leaves nothing behind";
}

TEST(Layers, AWholeConfigurationMeansTheSameRunInANewJobDirectory) {
  for (const GivenSettings& given :
       std::vector<GivenSettings>{{},
                                  {{"epochs", {"2.5"}}, {"batch-size", {"96"}}, {"threads", {"3"}}},
                                  {{"network", {"alexnet"}}, {"optimizer", {"adam"}}, {"max-time", {"90s"}}},
                                  {{"network", {"alexnet"}}, {"momentum", {"default"}}, {"param-rule", {}}},
                                  {{"network", {"resnet26"}}, {"shuffle", {"off"}}, {"data-threads", {"-1"}}},
                                  {{"parallel", {"hybrid"}}, {"mesh", {"data=2,model=2"}}},
                                  {{"split", {"conv[12]=model", "fc1=data"}}, {"workers", {"3"}}},
                                  {{"network", {"cifar-cnn"}},
                                   {"weight-decay-filter", {""}},
                                   {"batch-size", {"50"}},
                                   {"grains", {"25"}}}}) {
    const RunConfig config = resolve(given);
    EXPECT_EQ(resolve(settingsFromYaml(toYaml(config), "config.yaml")), config) << toYaml(config);
    EXPECT_EQ(resolve({}, toYaml(config)), config) << "as a stored one";
  }
}

TEST(Layers, OfAStoredRunCannotChangeWhatDefinesIt) {
  const std::string stored = toYaml(resolve({{"seed", {"3"}}}));
  EXPECT_EQ(resolveAll({{{"seed", {"4"}}}, {{"seed", {"3"}}}}, stored).seed, 3U);
  EXPECT_MENTIONS(errorOf<UsageError>([&] {
                    resolveAll({{{"seed", {"3"}}}, {{"seed", {"4"}}}}, stored);
                  }),
                  "--seed 3, not 4");
}

TEST(Division, IsByDataUnlessSomebodyAsks) {
  const RunConfig config = resolve({{"workers", {"3"}}});
  EXPECT_EQ(strategyOf(config), Strategy::data());
  EXPECT_EQ(meshOf(config, 3), (Mesh{.data = 3, .model = 1}));
  EXPECT_FALSE(splitsModel(config));
}

TEST(Division, HasAWordForAllLayersAndRulesForSome) {
  const RunConfig config =
      resolve({{"parallel", {"hybrid"}}, {"split", {"conv1=model", "fc.*=data"}}, {"workers", {"2"}}});
  Strategy strategy = Strategy::hybrid();
  strategy.rules = {{"conv1", LayerSplit::Model}, {"fc.*", LayerSplit::Data}};
  EXPECT_EQ(strategyOf(config), strategy);
  EXPECT_EQ(meshOf(config, 2), (Mesh{.data = 1, .model = 2}));
  EXPECT_TRUE(splitsModel(config));
  EXPECT_TRUE(splitsModel(resolve({{"split", {"conv1=data", "conv2=model"}}})));
  EXPECT_FALSE(splitsModel(resolve({{"split", {"conv1=data"}}})));
}

TEST(Division, OfALayerReplacesTheOneBelow) {
  const GivenSettings file{
      {"parallel", {"hybrid"}}, {"split", {"conv1=model"}}, {"mesh", {"data=2,model=2"}}, {"workers", {"4"}}};
  RunConfig config = resolveAll({file, {{"parallel", {"model"}}}});
  EXPECT_EQ(config.parallel, "model");
  EXPECT_TRUE(config.splits.empty());
  EXPECT_EQ(config.mesh, "");
  config = resolveAll({file, {{"split", {"fc1=model"}}}});
  EXPECT_EQ(config.parallel, "hybrid") << "rules for some layers alone refine what is below";
  EXPECT_EQ(config.splits, std::vector<std::string>{"fc1=model"});
  EXPECT_EQ(config.mesh, "data=2,model=2");
  config = resolveAll({file, {{"parallel", {"model"}}, {"mesh", {"data=1,model=4"}}}});
  EXPECT_EQ(config.mesh, "data=1,model=4");
  config = resolveAll({file, {{"mesh", {"model=4"}}}});
  EXPECT_EQ(config.parallel, "hybrid") << "a mesh alone replaces the mesh alone";
  EXPECT_EQ(config.splits, std::vector<std::string>{"conv1=model"});
  EXPECT_EQ(meshOf(config, 4), (Mesh{.data = 1, .model = 4}));
  EXPECT_EQ(resolveAll({file, {{"keep", {"2"}}}}), resolveAll({file, {{"keep", {"2"}}}, file}));
}

TEST(Division, MayChangeWhenARunGoesOn) {
  const std::string stored = toYaml(resolve({{"parallel", {"model"}}, {"workers", {"4"}}}));
  EXPECT_EQ(resolve({}, stored).parallel, "model");
  EXPECT_EQ(resolve({{"workers", {"2"}}}, stored).parallel, "model");
  EXPECT_EQ(resolve({{"split", {"fc1=data"}}}, stored).parallel, "model");
  EXPECT_EQ(resolve({{"parallel", {"hybrid"}}, {"mesh", {"data=2,model=2"}}}, stored).mesh, "data=2,model=2");
}

TEST(Division, AMeshSaysHowManyWorkersThereAre) {
  const GivenSettings mesh{{"parallel", {"hybrid"}}, {"mesh", {"data=2,model=2"}}};
  EXPECT_EQ(resolve(mesh).workers, 4);
  EXPECT_EQ(resolve({{"mesh", {"data=3"}}, {"batch-per-worker", {"20"}}}).batchSize, 60);
  EXPECT_EQ(resolveAll({mesh, {{"workers", {"4"}}}}).workers, 4);
  EXPECT_EQ(errorOf<UsageError>([&] {
              resolveAll({mesh, {{"workers", {"3"}}}});
            }),
            "--mesh data=2,model=2 is for 4 workers, not 3; give --workers 4, or a mesh of 3, such as --mesh "
            "data=1,model=3");
  EXPECT_MENTIONS(errorOf<UsageError>([&] { resolveAll({{{"workers", {"3"}}}, mesh}); }), "not 3");
  const std::string stored = toYaml(resolve({{"workers", {"3"}}}));
  EXPECT_MENTIONS(usageErrorOf(mesh, stored), "is for 4 workers, not 3; give --workers 4");
  EXPECT_EQ(resolveAll({mesh, {{"workers", {"4"}}}}, stored).workers, 4);
  EXPECT_EQ(resolve({}, toYaml(resolve(mesh))).workers, 4);
}

TEST(Division, ByModelNeedsWorkersThatComputeEveryStepTogether) {
  const std::string sentence = "--parallel model needs --sync bsp without servers: ";
  for (const GivenSettings& other : std::vector<GivenSettings>{{{"sync", {"local"}}},
                                                               {{"sync", {"diloco"}}},
                                                               {{"sync", {"async"}}},
                                                               {{"sync", {"ssp"}}},
                                                               {{"sync", {"backup"}}},
                                                               {{"servers", {"1"}}}}) {
    const GivenSettings model{{"parallel", {"model"}}, {"workers", {"2"}}};
    EXPECT_MENTIONS(errorOf<UsageError>([&] { resolveAll({model, other}); }), sentence);
    EXPECT_NO_THROW(resolveAll({{{"parallel", {"data"}}, {"workers", {"2"}}}, other}));
  }
  EXPECT_MENTIONS(usageErrorOf({{"split", {"fc1=data", "fc2=model"}}, {"servers", {"1"}}}),
                  "--split 'fc2=model' needs --sync bsp without servers");
}

TEST(Division, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(usageErrorOf({{"mesh", {"model=2"}}}),
            "--mesh model=2 needs layers that are split by model: give --parallel model or hybrid");
  EXPECT_EQ(resolve({{"mesh", {"data=2,model=1"}}}).workers, 2);
  EXPECT_MENTIONS(usageErrorOf({{"mesh", {"data=2"}}, {"elastic", {"true"}}}),
                  "--mesh data=2 fixes the number of workers, which --elastic changes");
  EXPECT_NO_THROW(resolve({{"parallel", {"model"}}, {"workers", {"3"}}, {"elastic", {"true"}}}));
  EXPECT_MENTIONS(usageErrorOf({{"split", {"fc1=data", "fc2=data", "fc1=model"}}}), "two rules for 'fc1'");
  EXPECT_MENTIONS(usageErrorOf({{"parallel", {"model"}}, {"workers", {"8"}}}), "8 workers need a grain each");
  EXPECT_MENTIONS(usageErrorOf({{"split", {std::string(100'000, '(') + "=model"}}}), "256 are the most");
  EXPECT_MENTIONS(usageErrorOf({{"split", {"a{22222222222222222222,}=model"}}}), "more than 9 digits");
  EXPECT_NO_THROW(checkSetting("split", {"a{0,99}123456789=model"}, "--split"));
}

TEST(GrainsPerWorker, AreForTheWorkersAndGrainsThatTheyWereSaidOf) {
  const GivenSettings said{{"workers", {"3"}}, {"grains-per-worker", {"2,1,1"}}};
  const RunConfig config = resolve(said);
  EXPECT_EQ(config.grainsPerWorker, "2,1,1");
  EXPECT_EQ(resolve({}, toYaml(config)), config);
  EXPECT_EQ(resolve({{"workers", {"2"}}}, toYaml(config)).grainsPerWorker, "") << "those of before are over";
  EXPECT_EQ(resolve({{"workers", {"2"}}, {"grains-per-worker", {"1,3"}}}, toYaml(config)).grainsPerWorker,
            "1,3");
  EXPECT_EQ(resolve({{"grains-per-worker", {""}}}, toYaml(config)).grainsPerWorker, "");
  EXPECT_EQ(errorOf<UsageError>([&] {
              resolveAll({said, {{"workers", {"2"}}}});
            }),
            "--grains-per-worker 2,1,1 is 4 grains on 3 workers, and a step has 4 on 2; give 2 numbers that "
            "add up to 4");
  EXPECT_MENTIONS(usageErrorOf({{"grains-per-worker", {"3"}}}),
                  "is 3 grains on 1 worker, and a step has 4 on 1");
  EXPECT_EQ(parseGrainsPerWorker("4,2,2", "--grains-per-worker"), (std::vector<int>{4, 2, 2}));
  for (const char* wrong :
       {"", ",", "4,", "4,,4", "4 4", "-1", "0", "4,0", "1e1", "99999999999", "20000000"}) {
    EXPECT_THROW(parseGrainsPerWorker(wrong, "--grains-per-worker"), UsageError) << wrong;
  }
}

TEST(RunConfig, ARecipeWithoutSizesIsRefused) {
  NetworkRegistry networks;
  networks.add(
      {.name = "mine", .recipe = {.batchSize = 0}, .build = builtinNetworks().find("mnist-fc").build});
  EXPECT_MENTIONS(errorOf<UsageError>([&] {
                    resolveConfig(networks, std::nullopt, {{"network", {"mine"}}});
                  }),
                  "recipe of mine");
}

TEST(RunConfig, SwitchesHaveSixWords) {
  for (const char* word : {"true", "yes", "on", "True", "ON"}) {
    EXPECT_TRUE(resolve({{"histograms", {word}}}).histograms) << word;
  }
  for (const char* word : {"false", "no", "off", "False", "NO"}) {
    EXPECT_FALSE(resolve({{"shuffle", {word}}}).shuffle) << word;
  }
  for (const char* word : {"", "1", "0", "truee", "y"}) {
    EXPECT_MENTIONS(usageErrorOf({{"shuffle", {word}}}), "--shuffle") << word;
  }
}

TEST(RunConfig, NamesThatAreNoneGetTheNearest) {
  EXPECT_MENTIONS(usageErrorOf({{"transforms", {"resize:3,flop"}}}), "did you mean flip?");
  EXPECT_MENTIONS(usageErrorOf({{"normalize", {"images"}}}), "--normalize");
  EXPECT_MENTIONS(usageErrorOf({{"validation-split", {"half"}}}), "--validation-split");
  EXPECT_MENTIONS(usageErrorOf({{"optimizer", {"adagradd"}}}), "did you mean 'adagrad'");
  EXPECT_MENTIONS(usageErrorOf({{"eval-on", {"validaton"}}}), "did you mean 'validation'");
  EXPECT_MENTIONS(usageErrorOf({{"schedule", {"cosinus:3"}}}), "cosinus");
  EXPECT_MENTIONS(usageErrorOf({{"param-rule", {"bias:lr=2", "bias"}}}), "'bias'");
}

TEST(RunConfig, TransformsDecideTheImageSizeWhereNobodyElseDoes) {
  const auto sizeOf = [](const GivenSettings& given) { return resolve(given).imageSize; };
  const GivenSettings cifar{{"network", {"cifar-cnn"}}, {"dataset", {"cifar10"}}};
  EXPECT_EQ(sizeOf(cifar), 24);
  const auto with = [&](GivenSettings more) {
    more.insert(cifar.begin(), cifar.end());
    return sizeOf(more);
  };
  EXPECT_EQ(with({{"transforms", {"resize:40,random-crop:28"}}}), 28);
  EXPECT_EQ(with({{"transforms", {"pad-crop:4,flip"}}}), 0);  // the images' own
  EXPECT_EQ(with({{"transforms", {"flip"}}, {"image-size", {"32"}}}), 32);
  EXPECT_EQ(sizeOf({{"network", {"resnet20"}}, {"dataset", {"cifar10"}}, {"transforms", {"flip"}}}), 32);
  EXPECT_EQ(resolve({{"network", {"resnet20"}}, {"dataset", {"cifar10"}}}).transforms, "pad-crop:4,flip");
  EXPECT_EQ(resolve({{"network", {"resnet20"}}, {"dataset", {"synthetic"}}}).transforms, "");
}

TEST(RunConfig, TextsThatAreNotUtf8AreRefused) {
  for (const char* wrong : {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\x80"}) {
    EXPECT_FALSE(isUtf8(wrong));
    EXPECT_MENTIONS(usageErrorOf({{"data-dir", {wrong}}}), "--data-dir");
  }
  for (const char* right : {"", "plain", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x8c\x8d"})
    EXPECT_TRUE(isUtf8(right)) << right;
}

TEST(RunConfig, DurationsHaveUnits) {
  EXPECT_EQ(parseDuration("90s", "--x"), 90);
  EXPECT_EQ(parseDuration("10m", "--x"), 600);
  EXPECT_EQ(parseDuration("2h", "--x"), 7200);
  EXPECT_EQ(parseDuration("1.5", "--x"), 1.5);
  for (const char* wrong : {"", "s", "-1s", "1d", "1 s", "infs", "nan", "1s1"}) {
    EXPECT_MENTIONS(errorOf<UsageError>([&] { parseDuration(wrong, "--x"); }), "--x")
        << " for '" << wrong << "'";
  }
}

TEST(RunConfig, CheckpointsComeByStepsOrByTime) {
  EXPECT_EQ(parseCheckpointInterval("1000").steps, 1000);
  EXPECT_EQ(parseCheckpointInterval("1000").seconds, 0);
  EXPECT_EQ(parseCheckpointInterval("600s").seconds, 600);
  EXPECT_EQ(parseCheckpointInterval("600s").steps, 0);
  EXPECT_EQ(parseCheckpointInterval("0").steps, 0);
  for (const char* wrong : {"", "-1", "often", "1.5", "-3s"}) {
    EXPECT_MENTIONS(errorOf<UsageError>([&] { parseCheckpointInterval(wrong); }), "--checkpoint-every")
        << " for '" << wrong << "'";
  }
}

}  // namespace
}  // namespace cohort
