#include "train/config_file.h"

#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

std::string errorIn(const std::string& text) {
  return errorOf<UsageError>([&] { settingsFromYaml(text, "f.yaml"); });
}

GivenSettings read(const std::string& text) {
  return settingsFromYaml(text, "f.yaml");
}

TEST(ConfigFile, KeysAreTheNamesOfTheFlags) {
  const GivenSettings given = read("network: alexnet\nbatch_size: 32\nweight-decay: 5e-4\n");
  EXPECT_EQ(given,
            (GivenSettings{{"network", {"alexnet"}}, {"batch-size", {"32"}}, {"weight-decay", {"5e-4"}}}));
}

TEST(ConfigFile, KeysMayBeNestedWhereItReadsBetter) {
  const GivenSettings given = read(R"(
network: {name: alexnet}
data:
  dir: /data
  dataset: folder
  shuffle: no
batch: {size: 32}
optimizer:
  name: nesterov
  lr: 0.1
  weight: {decay: 1e-4}
  schedule: cosine:900
checkpoint: {every: 600s}
eval: {every: 50, on: validation}
)");
  EXPECT_EQ(given, (GivenSettings{{"network", {"alexnet"}},
                                  {"data-dir", {"/data"}},
                                  {"dataset", {"folder"}},
                                  {"shuffle", {"no"}},
                                  {"batch-size", {"32"}},
                                  {"optimizer", {"nesterov"}},
                                  {"lr", {"0.1"}},
                                  {"weight-decay", {"1e-4"}},
                                  {"schedule", {"cosine:900"}},
                                  {"checkpoint-every", {"600s"}},
                                  {"eval-every", {"50"}},
                                  {"eval-on", {"validation"}}}));
}

TEST(ConfigFile, ListsAreForSettingsThatTakeSeveral) {
  EXPECT_EQ(read("param-rule: ['a:lr=2', 'b:decay=0']").at("param-rule"),
            (std::vector<std::string>{"a:lr=2", "b:decay=0"}));
  EXPECT_EQ(read("param-rule: a:lr=2").at("param-rule"), std::vector<std::string>{"a:lr=2"});
  EXPECT_EQ(read("param-rule: []").at("param-rule"), std::vector<std::string>{});
  EXPECT_EQ(read("transforms: [resize:256, random-crop:224, flip]").at("transforms"),
            std::vector<std::string>{"resize:256,random-crop:224,flip"});
  EXPECT_EQ(read("transforms:\n  - resize: 256\n  - flip").at("transforms"),
            std::vector<std::string>{"resize:256,flip"});
  EXPECT_EQ(read("transforms: resize:256,flip").at("transforms"),
            std::vector<std::string>{"resize:256,flip"});
  EXPECT_EQ(read("transforms: []").at("transforms"), std::vector<std::string>{"none"});
}

TEST(ConfigFile, ValuesKeepTheirText) {
  const GivenSettings given =
      read("validation-split: 5000\ndata-dir: '0x10'\nisa: \"\"\ninit-from: \"a: b # c\"\n");
  EXPECT_EQ(given.at("validation-split"), std::vector<std::string>{"5000"});
  EXPECT_EQ(given.at("data-dir"), std::vector<std::string>{"0x10"});
  EXPECT_EQ(given.at("isa"), std::vector<std::string>{""});
  EXPECT_EQ(given.at("init-from"), std::vector<std::string>{"a: b # c"});
}

TEST(ConfigFile, AnUnknownKeyIsRefusedWithItsPlaceAndTheNearest) {
  EXPECT_EQ(errorIn("lr: 1\nbath_size: 3\n"),
            "f.yaml:2:1: there is no setting 'bath_size'; did you mean 'batch-size'?");
  EXPECT_EQ(errorIn("optimizer:\n  lr: 1\n  momentom: 1\n"),
            "f.yaml:3:3: there is no setting 'momentom'; did you mean 'momentum'?");
  EXPECT_BEGINS(errorIn("quantum-foam: 1"),
                "f.yaml:1:1: there is no setting 'quantum-foam'; cohort train --help");
  EXPECT_BEGINS(errorIn("optimiser: {lr: 1}"),
                "f.yaml:1:1: there is no setting 'optimiser'; did you mean 'optimizer'?");
  EXPECT_BEGINS(errorIn("{[a, b]: 1}"), "f.yaml:1:2: ");
  EXPECT_BEGINS(errorIn("data: {name: x}"), "f.yaml:1:8: there is no setting 'name'");
}

TEST(ConfigFile, AValueOfTheWrongKindIsRefusedWithItsPlace) {
  EXPECT_EQ(errorIn("lr: {a: 1}"), "f.yaml:1:5: lr takes one value, not a map");
  EXPECT_EQ(errorIn("batch-size: [1, 2]"), "f.yaml:1:13: batch-size takes one value, not a list");
  EXPECT_EQ(errorIn("seed: 1\nlr: fast\n"), "f.yaml:2:5: lr takes a number, not 'fast'");
  EXPECT_EQ(errorIn("batch_size: 1.5"), "f.yaml:1:13: batch_size takes a whole number, not '1.5'");
  EXPECT_EQ(errorIn("threads: 1000"), "f.yaml:1:10: threads must be from 0 to 256, not 1000");
  EXPECT_EQ(errorIn("shuffle: maybe"), "f.yaml:1:10: shuffle is true or false, not 'maybe'");
  EXPECT_BEGINS(errorIn("optimizer: sgdd"),
                "f.yaml:1:12: there is no optimizer called 'sgdd' (did you mean 'sgd'?)");
  EXPECT_BEGINS(errorIn("schedule: often"), "f.yaml:1:11: The schedule 'often'");
  EXPECT_BEGINS(errorIn("param-rule: [x]"), "f.yaml:1:13: The parameter rule 'x'");
  EXPECT_BEGINS(errorIn("param-rule: [[a]]"), "f.yaml:1:14: ");
  EXPECT_BEGINS(errorIn("param-rule: [~]"), "f.yaml:1:14: ");
  EXPECT_BEGINS(errorIn("seed: 1\nlr:\n"), "f.yaml:2:1: lr has no value");
  EXPECT_BEGINS(errorIn("lr: ~"), "f.yaml:1:1: lr has no value");
  EXPECT_BEGINS(errorIn("data-dir: gs://bucket/x"), "f.yaml:1:11: 'gs://bucket/x'");
}

TEST(ConfigFile, ASettingGivenTwiceIsRefused) {
  EXPECT_EQ(errorIn("lr: 1\nseed: 1\nlr: 1\n"),
            "f.yaml:3:1: lr is given a second time; the first is in line 1");
  EXPECT_EQ(errorIn("batch_size: 1\nbatch-size: 1"),
            "f.yaml:2:1: batch-size is given a second time; the first is in line 1");
  EXPECT_BEGINS(errorIn("lr: 1\noptimizer: {lr: 1}"), "f.yaml:2:13: lr is given a second time");
}

TEST(ConfigFile, WhatIsNoConfigurationIsRefused) {
  for (const char* text : {"", "\n\n", "# only this\n", "---\n", "~"}) {
    EXPECT_BEGINS(errorIn(text), "f.yaml has no settings");
  }
  EXPECT_BEGINS(errorIn("just words"), "f.yaml:1:1: ");
  EXPECT_BEGINS(errorIn("- a\n- b\n"), "f.yaml:1:1: ");
  EXPECT_BEGINS(errorIn("lr: 1\nlr: [\n"), "f.yaml:3:1: this is not YAML");
  EXPECT_BEGINS(errorIn("lr: 'open"), "f.yaml:1:");
  EXPECT_BEGINS(errorIn("lr: *nothing"), "f.yaml:1:");
  EXPECT_BEGINS(errorIn("lr: 1\n---\nlr: 2\n"), "f.yaml:2:1: here begins a second document");
  EXPECT_BEGINS(errorIn("lr: 1\n} ]\n"), "f.yaml:2:1: ");
  EXPECT_BEGINS(errorIn(std::string("lr: 1\0", 6)), "f.yaml is no text");
  EXPECT_BEGINS(errorIn("\x89PNG\r\n\x1a\n"), "f.yaml is no text");
  EXPECT_BEGINS(errorIn("data-dir: M\xfcnchen"), "f.yaml is no text");
  EXPECT_BEGINS(errorIn(std::string(3'000'000, '#')), "f.yaml is larger than 1 MiB");
  EXPECT_MENTIONS(errorIn(std::string(100'000, '[')), "not YAML");
  EXPECT_MENTIONS(errorIn(std::string(100'000, '{')), "not YAML");
}

TEST(ConfigFile, MapsThatHoldThemselvesOrGrowWithoutEndAreRefused) {
  EXPECT_BEGINS(errorIn("optimizer: &a\n  optimizer: *a\n"), "f.yaml:2:3: maps in maps go on for ever");
  // Each line holds the one before three times, which is too much after eight.
  std::string growing = "data: &a0 {data: {}, model: {}, network: {}}\n";
  const char* const groups[] = {"model",    "network",    "dataset", "optimizer",
                                "training", "evaluation", "length",  "records"};
  for (std::size_t i = 0; i < std::size(groups); ++i) {
    growing += std::string(groups[i]) + ": &a" + std::to_string(i + 1) + " {";
    for (const char* const inner : {"data", "model", "network"}) {
      growing += std::string(inner) + ": *a" + std::to_string(i) + ", ";
    }
    growing += "}\n";
  }
  EXPECT_MENTIONS(errorIn(growing), "maps in maps go on for ever");
}

TEST(ConfigFile, DamagedTextIsReadOrRefusedButNeverMore) {
  const std::string whole = toYaml(resolveConfig(builtinNetworks(), std::nullopt, {}));
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same cases in every run
  const std::string characters = "[]{}:,#&*!|>'\"%@`-? \n\t~0a\\";
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole.substr(random() % whole.size(), 1 + random() % 300);
    for (unsigned change = 0; change < 1 + random() % 6; ++change) {
      text[random() % text.size()] = characters[random() % characters.size()];
    }
    try {
      settingsFromYaml(text, "f.yaml");
    } catch (const UsageError& error) {
      EXPECT_BEGINS(std::string(error.what()), "f.yaml");
    }
  }
}

TEST(ConfigFile, IsReadFromAFile) {
  const TestDirectory scratch;
  writeTestFile(scratch / "run.yaml", "lr: 0.5\n");
  EXPECT_EQ(readConfigFile(scratch / "run.yaml").at("lr"), std::vector<std::string>{"0.5"});
  writeTestFile(scratch / "wrong.yaml", "lr: x\n");
  EXPECT_BEGINS(errorOf<UsageError>([&] { readConfigFile(scratch / "wrong.yaml"); }),
                (scratch / "wrong.yaml").string() + ":1:5: ");
}

TEST(ConfigFile, WhereNoneIsHasASentence) {
  const TestDirectory scratch;
  EXPECT_MENTIONS(errorOf<UsageError>([&] { readConfigFile(scratch / "absent.yaml"); }), "absent.yaml");
  EXPECT_MENTIONS(errorOf<UsageError>([&] { readConfigFile(scratch.path()); }), "is a folder");
  writeTestFile(scratch / "config.yaml", "lr: 1\n");
  EXPECT_MENTIONS(errorOf<UsageError>([&] { readConfigFile(scratch.path()); }),
                  "give " + (scratch / "config.yaml").string());
  EXPECT_MENTIONS(errorOf<UsageError>([&] { readConfigFile(scratch / "config.yaml/x"); }), "config.yaml/x");
  EXPECT_MENTIONS(errorOf<UsageError>([&] { readConfigFile("/dev/zero"); }), "larger than");
  EXPECT_MENTIONS(errorOf<UsageError>([&] { readConfigFile("/proc/self/mem"); }), "cannot be read");
}

TEST(ConfigFile, GivesEveryValueBackExactly) {
  RunConfig config = resolveConfig(builtinNetworks(), std::nullopt, {{"network", {"cifar-cnn"}}});
  config.seed = ~std::uint64_t{0};
  config.learningRate = 0.1 + 0.2;
  config.weightDecay = 5e-324;
  config.epochs = 1.0 / 3;
  config.maxTime = 1e-7 / 3;
  config.paramRules = {"a:lr=2", R"(.*\.bias "x": #:decay=0)"};
  config.shuffle = false;
  config.trainSteps = 1'000'000'000'000;
  for (const char* text : {"",
                           " ",
                           "a \"quoted\" folder",
                           "back\\slash",
                           "0x10",
                           "007",
                           "1e3",
                           "1000",
                           "12:30",
                           "true",
                           "No",
                           "null",
                           "~",
                           "~/data",
                           "- a",
                           "a: b",
                           "a #b",
                           "a:",
                           "[x]",
                           "{x}",
                           "*x",
                           "&x",
                           "!x",
                           "%x",
                           "@x",
                           "`x",
                           "'x'",
                           "a\nb",
                           "a\tb",
                           "\x01",
                           "\xc3\xbc",
                           "\xe2\x80\xa8",
                           "/data",
                           ".5",
                           ".inf",
                           "-1",
                           "2001-01-01",
                           "=",
                           "<<",
                           "y",
                           "default",
                           "  both  ",
                           "\r"}) {
    config.dataDir = text;
    config.weightDecayFilter = text;
    for (const std::optional<double> momentum :
         {std::optional<double>{}, std::optional<double>{0.0}, {0.9}}) {
      config.momentum = momentum;
      const std::string yaml = toYaml(config);
      RunConfig back;
      applySettings(back, settingsFromYaml(yaml, "config.yaml"));
      EXPECT_EQ(back, config) << yaml;
    }
  }
}

TEST(ConfigFile, SavedOnesAreGroupedAndReadable) {
  const std::string yaml = toYaml(resolveConfig(builtinNetworks(), std::nullopt, {}));
  EXPECT_BEGINS(yaml, "# Every setting of a run;");
  EXPECT_MENTIONS(yaml, "\n\n# Model and data\nnetwork: mnist-cnn\ndataset: fashion-mnist\n");
  EXPECT_MENTIONS(yaml, "\n\n# Optimizer\noptimizer: adam\nlr: 0.001\nmomentum: default\n");
  EXPECT_MENTIONS(yaml, "\nparam-rule: []\n");
  EXPECT_MENTIONS(yaml, "\ncheckpoint-every: 1000\n");
  EXPECT_MENTIONS(yaml, "\nshuffle: true\n");
  for (const std::string& name : settingNames()) EXPECT_MENTIONS(yaml, "\n" + name + ":");
}

TEST(Overrides, NameSettingsAsFilesDo) {
  EXPECT_EQ(settingsFromOverrides(
                {"lr=0.1", "batch_size=4", "optimizer.momentum=0.5", "lr=0.2", "data-dir=a=b", "isa="}),
            (GivenSettings{{"lr", {"0.2"}},
                           {"batch-size", {"4"}},
                           {"momentum", {"0.5"}},
                           {"data-dir", {"a=b"}},
                           {"isa", {""}}}));
  EXPECT_EQ(settingsFromOverrides({"param-rule=a:lr=2", "param-rule=b:lr=3"}).at("param-rule"),
            (std::vector<std::string>{"a:lr=2", "b:lr=3"}));
  EXPECT_EQ(settingsFromOverrides({"param-rule="}).at("param-rule"), std::vector<std::string>{});
  EXPECT_EQ(settingsFromOverrides({"job_dir=x"}).at("job-dir"), std::vector<std::string>{"x"});
  EXPECT_EQ(settingsFromOverrides({"learning_rate=3"}).at("lr"), std::vector<std::string>{"3"});
}

TEST(Overrides, ThatAreNoneAreRefused) {
  for (const char* wrong :
       {"", "lr", "=1", "lrr=1", "foo.lr=1", "optimizer.lrr=1", ".lr=1", "lr.=1", "lr=x"}) {
    EXPECT_MENTIONS(errorOf<UsageError>([&] { settingsFromOverrides({wrong}); }), "-o") << wrong;
  }
  EXPECT_MENTIONS(errorOf<UsageError>([] { settingsFromOverrides({"lrr=1"}); }), "did you mean 'lr'");
}

}  // namespace
}  // namespace cohort
