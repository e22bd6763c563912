#include "train/older_names.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

using Kind = OlderName::Kind;

constexpr std::string_view kRules =
    "is not possible: the rules here are bsp, local and diloco, and through a center async, ssp, backup and "
    "easgd (--sync)";
constexpr std::string_view kElastic = "worker and center move by the same --alpha";
constexpr std::string_view kExchange = "how workers exchange follows from --sync, --servers and --wire";
constexpr std::string_view kPrepared =
    "needs prepared files that are not read here; leave it out, and give dataset: folder and the images' "
    "data-dir";
constexpr std::string_view kOwnFiles = "the dataset finds its files below --data-dir";

constexpr OlderName kNames[] = {
    // A hybrid-parallel trainer for AlexNet, OverFeat and VGG.
    {.name = "work-dir", .setting = "job-dir"},
    {.name = "model-dir", .setting = "job-dir"},
    {.name = "log-dir", .setting = "job-dir"},
    {.name = "batch-num", .setting = "train-steps"},
    {.name = "mode", .kind = Kind::Combined, .setting = "parallel"},
    {.name = "eval",
     .kind = Kind::Accepted,
     .values = "false|no|off",
     .text = "is a command of its own: cohort eval --job-dir DIR",
     .isSwitch = true},
    {.name = "redirect-outerr",
     .kind = Kind::Noted,
     .text = "send the output to a file with the shell, as in cohort train … > run.txt 2>&1",
     .isSwitch = true},

    // A course's CIFAR-10 program, with residual networks.
    {.name = "train-batch-size", .setting = "batch-size"},
    {.name = "learning-rate", .setting = "lr"},
    {.name = "checkpoint-num-steps", .setting = "checkpoint-every"},
    {.name = "num-intra-threads", .setting = "threads"},
    {.name = "num-layers", .kind = Kind::Combined, .setting = "network"},
    {.name = "use-distortion-for-training",
     .kind = Kind::Combined,
     .setting = "transforms",
     .isSwitch = true},
    {.name = "batch-norm-decay", .kind = Kind::Combined},
    {.name = "batch-norm-epsilon", .kind = Kind::Combined},
    {.name = "eval-batch-size",
     .kind = Kind::Noted,
     .text = "evaluation is cut into fixed parts, and its result does not depend on them"},
    {.name = "num-inter-threads", .kind = Kind::Noted, .text = "--threads says how many cores compute"},
    {.name = "data-format", .kind = Kind::Noted, .text = "the layout of images is chosen for each kernel"},
    {.name = "log-device-placement",
     .kind = Kind::Noted,
     .text = "cohort describe shows each layer's kernels",
     .isSwitch = true},
    {.name = "variable-strategy",
     .kind = Kind::Accepted,
     .values = "cpu",
     .text = "is not possible: cohort computes on processor cores; leave it out"},
    {.name = "num-gpus",
     .kind = Kind::Accepted,
     .values = "0",
     .text = "is not possible: cohort computes on processor cores; leave it out (--threads says how many)"},

    // An MPI trainer's config.yaml: the rule and the exchange.
    {.name = "sync-rule", .setting = "sync"},
    {.name = "sync-freq",
     .kind = Kind::Accepted,
     .values = "1",
     .text = "is not possible: give --sync local and --avg-freq"},
    {.name = "train-mode", .kind = Kind::Accepted, .values = "avg|cdd", .text = kRules},
    {.name = "worker-type", .kind = Kind::Accepted, .values = "avg|cdd", .text = kRules},
    {.name = "sync-type", .kind = Kind::Accepted, .values = "avg|cdd", .text = kRules},
    {.name = "sync-start",
     .kind = Kind::Noted,
     .text = "workers of a center come and go at any time (--join), others begin together",
     .isSwitch = true},
    {.name = "server-alpha", .kind = Kind::Noted, .text = kElastic},
    {.name = "worker-alpha", .kind = Kind::Noted, .text = kElastic},
    {.name = "alpha-step", .kind = Kind::Noted, .text = kElastic},
    {.name = "alpha-minus", .kind = Kind::Noted, .text = kElastic},
    {.name = "exch-strategy", .kind = Kind::Noted, .text = kExchange},
    {.name = "cuda-aware", .kind = Kind::Noted, .text = kExchange, .isSwitch = true},
    {.name = "fp", .setting = "wire"},

    // The same: learning.
    {.name = "n-epochs", .setting = "epochs"},
    {.name = "lr-policy",
     .kind = Kind::Accepted,
     .values = "step",
     .text = "is not possible yet: give the epochs as lr_step, or a --schedule"},
    {.name = "lr-step", .kind = Kind::Combined, .setting = "schedule"},
    {.name = "lr-adapt-threshold", .kind = Kind::Noted, .text = "it belongs to lr_policy: auto"},
    {.name = "use-momentum", .kind = Kind::Combined, .isSwitch = true},
    {.name = "use-nesterov-momentum", .kind = Kind::Combined, .isSwitch = true},
    {.name = "weight-init-seed", .setting = "seed"},
    {.name = "dropout-init-seed", .kind = Kind::Noted, .text = "--seed decides all randomness, dropout too"},
    {.name = "rand-crop", .kind = Kind::Combined, .isSwitch = true},
    {.name = "batch-crop-mirror",
     .kind = Kind::Noted,
     .text = "each image is cropped and flipped by itself",
     .isSwitch = true},
    {.name = "debug",
     .kind = Kind::Accepted,
     .values = "false|no|off",
     .text = "is not known here; --train-steps makes a run short",
     .isSwitch = true},

    // The same: model and data.
    {.name = "name", .kind = Kind::Combined, .setting = "network"},
    {.name = "input-width", .setting = "image-size"},
    {.name = "input-height", .setting = "image-size"},
    {.name = "n-softmax-out", .setting = "classes"},
    {.name = "image-mean", .kind = Kind::Combined, .setting = "normalize"},
    {.name = "dir-head", .kind = Kind::Accepted, .text = kPrepared},
    {.name = "data-source", .kind = Kind::Accepted, .text = kPrepared},
    {.name = "use-data-layer",
     .kind = Kind::Accepted,
     .values = "false|no|off",
     .text = kPrepared,
     .isSwitch = true},
    {.name = "train-folder", .kind = Kind::Noted, .text = kOwnFiles},
    {.name = "val-folder", .kind = Kind::Noted, .text = kOwnFiles},
    {.name = "label-folder", .kind = Kind::Noted, .text = kOwnFiles},
    {.name = "mean-file", .kind = Kind::Noted, .text = kOwnFiles},
    {.name = "file-batch-size", .kind = Kind::Noted, .text = kOwnFiles},
    {.name = "para-load",
     .kind = Kind::Noted,
     .text = "data is read ahead where that helps (--data-threads)",
     .isSwitch = true},
    {.name = "sock-data", .kind = Kind::Noted, .text = "reading ahead needs no port"},
    {.name = "lib-conv", .kind = Kind::Noted, .text = "convolutions are oneDNN's"},
    {.name = "source", .kind = Kind::Noted, .text = "the networks are Cohort's own"},

    // The same: records and resume.
    {.name = "weights-dir", .setting = "job-dir"},
    {.name = "record-dir", .kind = Kind::Noted, .text = "all files of a run are in its --job-dir"},
    {.name = "print-info-every", .kind = Kind::Combined},
    {.name = "print-freq", .kind = Kind::Noted, .text = "print_info_every or --log-every says how often"},
    {.name = "print-train-error", .kind = Kind::Noted, .text = "the loss is always told", .isSwitch = true},
    {.name = "flag-top-5", .kind = Kind::Noted, .text = "top-1 and top-5 are always told", .isSwitch = true},
    {.name = "snapshot-freq",
     .kind = Kind::Noted,
     .text = "it counts epochs; --checkpoint-every takes steps or a time"},
    {.name = "monitor-grad", .setting = "histograms", .isSwitch = true},
    {.name = "initial-val",
     .kind = Kind::Accepted,
     .values = "false|no|off",
     .text = "is not possible yet: --eval-every evaluates during the run, cohort eval any checkpoint",
     .isSwitch = true},
    {.name = "pretrain",
     .kind = Kind::Accepted,
     .values = "false|no|off",
     .text = "is --init-from FILE here, with a safetensors file",
     .isSwitch = true},
    {.name = "resume-train", .kind = Kind::Combined, .isSwitch = true},
    {.name = "load-epoch", .kind = Kind::Combined},
    {.name = "load-path", .kind = Kind::Combined},
};

constexpr std::string_view kRemote[] = {"gs://", "s3://", "hdfs://"};

}  // namespace

std::span<const OlderName> olderNames() {
  return kNames;
}

const OlderName* findOlderName(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name, &OlderName::name);
  return found == std::end(kNames) ? nullptr : found;
}

std::string todaysValue(std::string_view setting, const std::string& text) {
  if (setting == "dataset" && (text == "fake_data" || text == "fake-data")) return "synthetic";
  if (setting == "wire" && (text == "16" || text == "32")) return "fp" + text;
  // As a switch it said whether workers wait for each other.
  const std::optional<bool> waits = setting == "sync" ? parseSwitch(text) : std::nullopt;
  if (waits) return *waits ? "bsp" : "async";
  for (const std::string_view rule : {"BSP", "EASGD"}) {
    if (setting == "sync" && text == rule) return rule == "BSP" ? "bsp" : "easgd";
  }
  return text;
}

void refuseRemotePath(const std::string& text) {
  for (const std::string_view prefix : kRemote) {
    if (text.find(prefix) == std::string::npos) continue;
    throw UsageError(
        fmt::format("'{}' is not on this machine: cohort reads and writes files of its own machine only; "
                    "copy them first, and give "
                    "the folder",
                    text));
  }
}

}  // namespace cohort
