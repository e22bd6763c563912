#include "train/run_config.h"

#include <functional>

#include <gtest/gtest.h>

#include "base/error.h"

namespace cohort {
namespace {

RunConfig resolve(const GivenSettings& given, const std::optional<std::string>& stored = std::nullopt) {
  return resolveConfig(builtinNetworks(), stored, given);
}

std::string usageErrorOf(const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::string usageErrorOf(const GivenSettings& given,
                         const std::optional<std::string>& stored = std::nullopt) {
  return usageErrorOf([&] { resolve(given, stored); });
}

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

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
  const RunConfig config = resolve({{"keep", {"2"}}}, toJson(stored));
  EXPECT_EQ(config.network, "mnist-fc");
  EXPECT_EQ(config.learningRate, 0.5);
  EXPECT_EQ(config.keep, 2);
}

TEST(RunConfig, TheLastOfARepeatedSettingCountsAndListsKeepAll) {
  const RunConfig config = resolve({{"lr", {"0.1", "0.2"}}, {"param-rule", {"bias:lr=2", "fc1:decay=0"}}});
  EXPECT_EQ(config.learningRate, 0.2);
  EXPECT_EQ(config.paramRules, (std::vector<std::string>{"bias:lr=2", "fc1:decay=0"}));
}

TEST(RunConfig, AChangeOfADefiningSettingIsRefusedWithTheDifference) {
  const std::string stored = toJson(resolve({}));
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
                    toJson(stored)),
            stored);
}

TEST(RunConfig, WhatDoesNotDefineTheRunMayChange) {
  const std::string stored = toJson(resolve({}));
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
  config = resolve({{"max-time", {"2m"}}}, toJson(config));
  EXPECT_EQ(config.maxTime, 120);
  EXPECT_EQ(config.epochs, 0);
  config = resolve({{"train-steps", {"50"}}, {"max-time", {"1h"}}}, toJson(config));
  EXPECT_EQ(config.trainSteps, 50);
  EXPECT_EQ(config.maxTime, 3600);
  EXPECT_EQ(resolve({{"keep", {"1"}}}, toJson(config)).trainSteps, 50) << "kept where none is given";
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
                                                       {"workers", "2"},
                                                       {"workers", "0"},
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

TEST(RunConfig, JsonGivesTheSameConfigurationBack) {
  RunConfig config = resolve({{"network", {"cifar-cnn"}}});
  config.seed = ~std::uint64_t{0};
  config.learningRate = 0.1 + 0.2;
  config.dataDir = "a \"quoted\" folder";
  config.paramRules = {"a:lr=2", "b:decay=0"};
  for (const std::optional<double> momentum : {std::optional<double>{}, std::optional<double>{0.0}, {0.9}}) {
    config.momentum = momentum;
    EXPECT_EQ(configFromJson(toJson(config), "here"), config);
  }
}

TEST(RunConfig, ASettingThatJsonLacksHasItsDefault) {
  const RunConfig config = configFromJson(R"({"network": "mnist-fc"})", "here");
  EXPECT_EQ(config.network, "mnist-fc");
  EXPECT_EQ(config.keep, RunConfig{}.keep);
}

TEST(RunConfig, JsonOfTheWrongFormIsRefusedWithItsSource) {
  for (const char* text : {"", "{", "[]", "3", R"({"network": 3})", R"({"batch-size": "many"})",
                           R"({"param-rule": "a:lr=2"})", R"({"momentum": []})", R"({"lr": null})"}) {
    EXPECT_MENTIONS(usageErrorOf([&] { configFromJson(text, "some/config.json"); }), "some/config.json")
        << " for " << text;
  }
}

TEST(RunConfig, DurationsHaveUnits) {
  EXPECT_EQ(parseDuration("90s", "--x"), 90);
  EXPECT_EQ(parseDuration("10m", "--x"), 600);
  EXPECT_EQ(parseDuration("2h", "--x"), 7200);
  EXPECT_EQ(parseDuration("1.5", "--x"), 1.5);
  for (const char* wrong : {"", "s", "-1s", "1d", "1 s", "infs", "nan", "1s1"}) {
    EXPECT_MENTIONS(usageErrorOf([&] { parseDuration(wrong, "--x"); }), "--x") << " for '" << wrong << "'";
  }
}

TEST(RunConfig, CheckpointsComeByStepsOrByTime) {
  EXPECT_EQ(parseCheckpointInterval("1000").steps, 1000);
  EXPECT_EQ(parseCheckpointInterval("1000").seconds, 0);
  EXPECT_EQ(parseCheckpointInterval("600s").seconds, 600);
  EXPECT_EQ(parseCheckpointInterval("600s").steps, 0);
  EXPECT_EQ(parseCheckpointInterval("0").steps, 0);
  for (const char* wrong : {"", "-1", "often", "1.5", "-3s"}) {
    EXPECT_MENTIONS(usageErrorOf([&] { parseCheckpointInterval(wrong); }), "--checkpoint-every")
        << " for '" << wrong << "'";
  }
}

}  // namespace
}  // namespace cohort
