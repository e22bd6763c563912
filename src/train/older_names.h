// Options of older training programs, accepted on the command line and in configuration files: each becomes a setting of
// today, is told to be without effect, or is refused with a sentence. None that would change the result is passed over
// in silence. docs/from-older-systems.md shows them by program.
//
// Pure functions and one constant table; safe from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/run_config.h"

namespace cohort {

struct OlderName {
  enum class Kind {
    Alias,  // of `setting`
    Accepted,  // where its value is one of `values` (case does not matter); otherwise refused: "NAME VALUE " and `text`
    Noted,     // "NAME has no effect: " and `text`
    Combined,  // has a rule of its own in older_names.cpp
  };
  std::string_view name;  // with dashes
  Kind kind = Kind::Alias;
  std::string_view setting{};  // what it sets, where that is one setting
  std::string_view values{};   // "0|CPU"
  std::string_view text{};
  bool isSwitch = false;  // may stand without a value on the command line
};

std::span<const OlderName> olderNames();
// Null where it is none.
const OlderName* findOlderName(std::string_view name);

// One that a user gave.
struct OlderSetting {
  std::string name;                 // in the table
  std::vector<std::string> values;  // at least one
  std::string shown;                // what the user wrote: "--train-batch-size", "train_batch_size"
  std::string place{};              // before messages: "FILE:3:1: "
};

// Adds their settings to one layer; what they have to say goes to `notes`. UsageError where a value is refused, or where
// two names give one setting different values.
void translateOlderNames(std::span<const OlderSetting> older, GivenSettings& given,
                         std::vector<std::string>& notes);

// For --mode, which stands in the layers under its own name too: sets parallel and the number of workers, unless a layer
// above it gives another division. Returns whether it did. UsageError where another number of workers is given anywhere, or may come
// later (elastic).
bool applyMode(std::span<const GivenSettings> layers, RunConfig& config);

// For those that depend on the network or the batch size, which are known only when all layers are applied: they stand
// in the layers under their own names until then.
// `resumes`: the job directory has a run.
void applyOlderNames(std::span<const GivenSettings> layers, const Network& network, bool resumes,
                     RunConfig& config);

// An older word for a setting's value ("fake_data") in today's ("synthetic"); others stay as they are.
std::string todaysValue(std::string_view setting, const std::string& text);

// UsageError where a text names a place that only a cloud's client can open (gs://, s3://).
void refuseRemotePath(const std::string& text);

}  // namespace cohort
