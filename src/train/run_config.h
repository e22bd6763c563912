// Everything that decides a training run, in the words of the command line. One table (visitSettings) serves the flags,
// configuration files, the job directory's config.yaml and the comparison of two configurations, so that a setting is
// written down once.
//
// Where a value comes from, later ones winning: the network's recipe, the job directory's stored configuration, the
// layers given now (a --config file, the flags, -o). A *defining* setting cannot change within a job directory: the run
// would no longer be the one that its weights come from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/network.h"
#include "parallel/strategy.h"
#include "sync/exchange_rule.h"

namespace cohort {

struct RunConfig {
  // The model and its data.
  std::string network = "mnist-cnn";
  std::string dataset;
  std::string dataDir;
  std::int64_t imageSize = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;  // 0: the dataset's own
  std::int64_t samples = 0;
  std::int64_t testSamples = 0;
  std::string transforms;
  std::string normalize;
  std::string validationSplit;
  std::string testSplit;
  std::string evalOn = "test";
  bool shuffle = true;
  bool randomness = true;

  // How a step is cut.
  std::int64_t batchSize = 0;
  std::int64_t grains = 0;
  std::uint64_t seed = 1;
  std::string isa;

  // How weights move.
  std::string optimizer;
  double learningRate = 0;
  std::optional<double> momentum;
  double weightDecay = 0;
  std::string weightDecayFilter;
  std::vector<std::string> paramRules;
  std::string schedule;
  double averageDecay = 0;
  std::string initFrom;

  // How workers agree.
  std::string sync = "bsp";
  std::int64_t avgFreq = 1;      // local, easgd
  double alpha = 0.5;            // easgd
  double probability = 0.1;      // gossip
  std::int64_t innerSteps = 50;  // diloco
  double outerLearningRate = 0.7;
  double outerMomentum = 0.9;
  std::string wire = "fp32";
  std::int64_t servers = 0;    // of a center; 0: as the rule needs
  std::int64_t staleness = 3;  // ssp
  std::int64_t backups = 1;    // backup
  bool scaleStale = false;     // async, ssp
  std::int64_t groups = 0;     // group
  std::string between = "async";

  // In virtual time.
  std::int64_t virtualWorkers = 0;  // 0: real ones
  std::string cluster;              // a file

  // How workers divide the network. The bits depend on it, but a run may go on with another division.
  std::string parallel = "data";
  std::vector<std::string> splits;
  std::string mesh;  // empty: as meshOf says

  // How long, and what is kept.
  std::int64_t trainSteps = 0;  // 0: no limit
  double epochs = 0;            // 0: no limit
  double maxTime = 0;           // seconds; 0: no limit
  std::string checkpointEvery = "1000";
  std::int64_t keep = 3;
  std::int64_t evalEvery = 0;
  std::int64_t logEvery = 0;  // 0: 20 to 50 times in the run
  bool histograms = false;
  std::int64_t receiptEvery = 100;  // 0: none
  bool trace = false;

  // How this process works; no effect on the result.
  std::int64_t threads = 0;       // 0: every core of the worker
  std::int64_t dataThreads = -1;  // -1: chosen by the dataset
  bool pin = true;
  std::int64_t workers = 1;
  std::int64_t batchPerWorker = 0;  // 0: batchSize counts
  std::string grainsPerWorker;      // empty: by the workers' lanes
  std::int64_t maxRestarts = 3;
  bool elastic = false;
  double stallTimeout = 60;   // seconds
  double recoveryWait = 60;   // seconds
  double snapshotEvery = 30;  // seconds
  bool journal = true;        // with a center
  std::string chaos;          // a number; empty: none

  bool operator==(const RunConfig&) const = default;
};

// What a setting is.
struct Setting {
  const char* name = "";   // without the dashes
  const char* group = "";  // of the help text
  const char* value = "";  // placeholder: "N", "NAME"
  const char* help = "";
  bool defining = false;
};

// Calls visit(setting, field) for every setting, in the order of the help text.
template <class Config, class Visit>
void visitSettings(Config& c, Visit&& visit) {
  const char* group = "Model and data";
  visit(Setting{"network", group, "NAME", "network to train; 'cohort describe --list' names them", true},
        c.network);
  visit(Setting{"dataset", group, "NAME",
                "mnist, fashion-mnist, cifar10, cifar100, flowers, folder, synthetic", true},
        c.dataset);
  visit(Setting{"data-dir", group, "DIR", "where the dataset's files are"}, c.dataDir);
  visit(Setting{"image-size", group, "S", "height and width of the images", true}, c.imageSize);
  visit(Setting{"channels", group, "N", "colour channels of synthetic images", true}, c.channels);
  visit(Setting{"classes", group, "N", "classes of synthetic data (images have their own)", true}, c.classes);
  visit(Setting{"samples", group, "N", "training samples of synthetic data", true}, c.samples);
  visit(Setting{"test-samples", group, "N", "test samples of synthetic data"}, c.testSamples);
  visit(Setting{"transforms", group, "LIST", "resize:S, random-crop:S, pad-crop:P, flip ...; docs/data.md",
                true},
        c.transforms);
  visit(Setting{"normalize", group, "HOW", "dataset, measured, mean-image, image, none or MEAN/STD", true},
        c.normalize);
  visit(Setting{"validation-split", group, "PART", "files, none, N training images, or P% by name", true},
        c.validationSplit);
  visit(Setting{"test-split", group, "PART", "the same, where the dataset has no test files", true},
        c.testSplit);
  visit(Setting{"eval-on", group, "SPLIT", "what evaluations use: test or validation"}, c.evalOn);
  visit(Setting{"shuffle", group, "", "a new order in every epoch (--no-shuffle: the files' order)", true},
        c.shuffle);
  visit(Setting{"randomness", group, "", "shuffling, augmentation, dropout (--no-randomness: none of them)",
                true},
        c.randomness);

  group = "Batch";
  visit(Setting{"batch-size", group, "N", "samples in a step, all grains together (async, ssp: one worker's)",
                true},
        c.batchSize);
  visit(Setting{"grains", group, "N", "equal parts of a batch, each computed alone", true}, c.grains);
  visit(Setting{"seed", group, "N", "of initial weights, order of samples and dropout", true}, c.seed);
  visit(
      Setting{"isa", group, "NAME", "instruction set: sse41, avx2 or avx512 (default: the best here)", true},
      c.isa);

  group = "Optimizer";
  visit(Setting{"optimizer", group, "NAME", "sgd, momentum, nesterov, adagrad, rmsprop or adam", true},
        c.optimizer);
  visit(Setting{"lr", group, "X", "learning rate"}, c.learningRate);
  visit(Setting{"momentum", group, "X", "for momentum, nesterov and rmsprop"}, c.momentum);
  visit(Setting{"weight-decay", group, "X", "L2 factor, added to the gradient"}, c.weightDecay);
  visit(Setting{"weight-decay-filter", group, "REGEX", "decay only parameters with such names"},
        c.weightDecayFilter);
  visit(Setting{"param-rule", group, "RULE", "'REGEX:lr=2,decay=0'; may be repeated"}, c.paramRules);
  visit(Setting{"schedule", group, "TEXT",
                "constant, steps:N,F, exponential:N,R, piecewise:EPOCH=F,..., cosine:N"},
        c.schedule);
  visit(Setting{"average-decay", group, "X", "evaluate a moving average of the weights (0: off)"},
        c.averageDecay);
  visit(Setting{"init-from", group, "FILE", "start from a safetensors file's weights, by name"}, c.initFrom);

  group = "Length and records";
  visit(Setting{"train-steps", group, "N",
                "stop at this global step (async, ssp: all workers' steps together)"},
        c.trainSteps);
  visit(Setting{"epochs", group, "E", "stop after this many passes over the data"}, c.epochs);
  visit(Setting{"max-time", group, "T", "stop after this time: 90s, 10m, 2h"}, c.maxTime);
  visit(Setting{"checkpoint-every", group, "K", "steps, or a time such as 600s; 0: only at the end"},
        c.checkpointEvery);
  visit(Setting{"keep", group, "K", "checkpoints to keep"}, c.keep);
  visit(Setting{"eval-every", group, "K", "evaluate every K steps; 0: only at the end"}, c.evalEvery);
  visit(Setting{"log-every", group, "K", "steps between log points (default: 20 to 50 of them)"}, c.logEvery);
  visit(Setting{"histograms", group, "", "record distributions of weights and gradients too"}, c.histograms);
  visit(Setting{"receipt-every", group, "K", "a hash of all weights in receipt.jsonl every K steps; 0: none"},
        c.receiptEvery);
  visit(Setting{"trace", group, "", "receipts have a hash of every parameter"}, c.trace);

  group = "Process";
  visit(Setting{"threads", group, "T", "lanes, each computing whole grains (default: every core)"},
        c.threads);
  visit(Setting{"pin", group, "", "keep each lane on its core where a run has all (--no-pin: do not)"},
        c.pin);
  visit(Setting{"data-threads", group, "N", "threads that read ahead (default: as the dataset needs)"},
        c.dataThreads);

  group = "Workers";
  visit(Setting{"workers", group, "N", "worker processes on this machine; the cores are divided among them"},
        c.workers);
  visit(Setting{"batch-per-worker", group, "N", "instead of --batch-size: samples of each worker in a step"},
        c.batchPerWorker);
  visit(Setting{"grains-per-worker", group, "LIST", "such as 4,2,2 (default: in proportion to their lanes)"},
        c.grainsPerWorker);
  visit(
      Setting{"parallel", group, "HOW", "data, model or hybrid: how workers divide layers; docs/parallel.md"},
      c.parallel);
  visit(Setting{"split", group, "RULE", "'LAYER=model' or '=data', a name or expression; may be repeated"},
        c.splits);
  visit(Setting{"mesh", group, "D,M", "data=D,model=M: D groups that divide the batch, of M workers each"},
        c.mesh);
  visit(
      Setting{"sync", group, "RULE", "bsp, local, diloco, async, ssp, backup, easgd, gossip or group", true},
      c.sync);
  visit(Setting{"servers", group, "M", "servers of a center (default: 1 for rules that need one); bsp too"},
        c.servers);
  visit(Setting{"staleness", group, "S", "ssp: steps that a worker may be ahead of the slowest"},
        c.staleness);
  visit(Setting{"backups", group, "B", "backup: workers whose part of a step is not waited for"}, c.backups);
  visit(Setting{"scale-stale", group, "", "async, ssp: smaller steps for gradients of older weights"},
        c.scaleStale);
  visit(Setting{"groups", group, "G", "group: so many, each of them one member of the center"}, c.groups);
  visit(Setting{"between", group, "RULE", "group: async, easgd or gossip, by which groups meet", true},
        c.between);
  visit(Setting{"recovery-wait", group, "T",
                "how long workers try to reach a server, and may stand still meanwhile"},
        c.recoveryWait);
  visit(Setting{"snapshot-every", group, "T",
                "async, ssp, easgd, gossip: how often servers keep a copy; 0: never"},
        c.snapshotEvery);
  visit(Setting{"journal", group, "", "keep a center's order of updates, for replay (--no-journal: do not)"},
        c.journal);
  visit(Setting{"avg-freq", group, "K", "local: steps between averagings; easgd: between exchanges"},
        c.avgFreq);
  visit(Setting{"alpha", group, "A", "easgd: how far worker and center move to each other in an exchange"},
        c.alpha);
  visit(
      Setting{"probability", group, "P", "gossip: of a letter to another worker, after each step of its own"},
      c.probability);
  visit(Setting{"inner-steps", group, "H", "diloco: steps between outer steps"}, c.innerSteps);
  visit(Setting{"outer-lr", group, "X", "diloco: rate of the outer step"}, c.outerLearningRate);
  visit(Setting{"outer-momentum", group, "X", "diloco: Nesterov momentum of the outer step"},
        c.outerMomentum);
  visit(
      Setting{"wire", group, "TYPE", "fp32, or fp16: half the bytes, but not the same bits for any workers"},
      c.wire);
  visit(Setting{"virtual", group, "N", "N workers in this process and virtual time; docs/virtual.md", true},
        c.virtualWorkers);
  visit(Setting{"cluster", group, "FILE", "virtual: its hosts, cables, stragglers and failures (YAML)"},
        c.cluster);
  visit(Setting{"max-restarts", group, "N",
                "restarts in a row without a new checkpoint (with a center: a step)"},
        c.maxRestarts);
  visit(Setting{"elastic", group, "", "go on with one worker fewer after a failure"}, c.elastic);
  visit(Setting{"stall-timeout", group, "T", "a worker that stands still for so long is taken for dead"},
        c.stallTimeout);
  visit(Setting{"chaos", group, "SEED", "kill and freeze random workers at random moments"}, c.chaos);
}

// Values as a user gave them, by setting name; a list setting has several.
using GivenSettings = std::map<std::string, std::vector<std::string>, std::less<>>;

std::vector<std::string> settingNames();
bool isSetting(std::string_view name);
bool isList(std::string_view name);    // takes several values
bool isSwitch(std::string_view name);  // true or false

// UsageError where a text is not a value of its setting, naming the flag.
void applySettings(RunConfig& config, const GivenSettings& given);
// The same for one setting, which the message calls `shown`; its value is not kept.
void checkSetting(std::string_view name, const std::vector<std::string>& values, const std::string& shown);

// Of a setting that may be left open (momentum): what its rule does by itself.
inline constexpr std::string_view kDefaultValue = "default";

// Texts that are not cannot be kept in a configuration.
bool isUtf8(std::string_view text);

// true, yes, on -> true; false, no, off -> false; nothing for another text.
std::optional<bool> parseSwitch(std::string_view text);

// The configuration of a run: recipe, then `stored` (a config.yaml's text; empty for a new job directory), then the
// layers, later ones winning. Some settings are replaced together: a layer that gives a length forgets those from below,
// and one with another optimizer the momentum from below; one that says how the network is divided (parallel, split, an older
// mode) forgets parallel, split and mesh; grains follow the batch size where they were not given with it, and the workers a mesh or
// a mode where nobody gives them. UsageError where a given value contradicts a defining one that is stored.
RunConfig resolveLayers(const NetworkRegistry& networks, const std::optional<std::string>& stored,
                        std::span<const GivenSettings> layers,
                        const ExchangeRules& rules = builtinExchangeRules());
// With one layer.
RunConfig resolveConfig(const NetworkRegistry& networks, const std::optional<std::string>& stored,
                        const GivenSettings& given, const ExchangeRules& rules = builtinExchangeRules());

// UsageError where nobody knows its synchronisation rule.
void requireRule(const RunConfig& config, const ExchangeRules& rules);

// Whether its workers talk to a center.
bool hasCenter(const RunConfig& config);
// Workers that are one member of the center together: 1 but for groups.
int groupSize(const RunConfig& config);
// By which members of a center meet: between groups, or as all workers synchronise.
const std::string& centerRule(const RunConfig& config);
// Whether a step is one worker's or group's, on a batch of its own.
bool stepsAlone(const RunConfig& config);
// Whether workers of its center have weights of their own: easgd, gossip, and users' own rules.
bool exchanges(const RunConfig& config);
// Whether these send each other letters.
bool gossips(const RunConfig& config);

// UsageError where there are more workers than grains, or a rule's settings do not fit.
void requireWorkers(const RunConfig& config);

// UsageError where workers do not divide into the groups that are asked for.
void requireGroups(const RunConfig& config);

// "4,2,2" -> these; UsageError where a text is no list of numbers from 1 on.
std::vector<int> parseGrainsPerWorker(std::string_view text, const std::string& flag);

// How its workers divide the network, for any network: a rule may still fit none of its layers.
Strategy strategyOf(const RunConfig& config);
// The groups of so many workers: as the configuration says; otherwise one of all where the network is divided, else one each.
Mesh meshOf(const RunConfig& config, int workers);
// Whether some layers may be split by model.
bool splitsModel(const RunConfig& config);

// UsageError where virtual workers are asked for what only real ones do.
void requireVirtual(const RunConfig& config);

// UsageError where the division of the network does not fit the workers or their rule.
void requireParallel(const RunConfig& config);

// "90s", "10m", "2h", "1.5" (seconds) -> seconds.
double parseDuration(std::string_view text, const std::string& flag);

// When to write a checkpoint.
struct CheckpointInterval {
  std::int64_t steps = 0;  // 0: not by steps
  double seconds = 0;      // 0: not by time
};
CheckpointInterval parseCheckpointInterval(const std::string& text,
                                           const std::string& flag = "--checkpoint-every");

}  // namespace cohort
