// What a center must know of a run: plain values, brought by the first worker.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/parameter.h"
#include "center/moment.h"
#include "center/policy.h"
#include "optim/shard.h"

namespace cohort {

// How gradients of several workers become updates.
struct CenterRule {
  std::string name = "async";  // bsp, async, ssp, backup; of those with weights of their own any
  Step staleness = 0;          // ssp
  int backups = 0;             // backup
  int members = 1;             // that the first step of backup waits for
  bool scaleRate = false;      // async, ssp: smaller steps for older gradients
  bool hasOwnWeights = false;  // workers have, and exchange with the center's now and then
  std::uint64_t seed = 0;      // gossip: whom letters go to
};

inline constexpr Step kNoTarget = std::numeric_limits<Step>::max();

struct CenterSetup {
  std::string config;  // as text: for workers that come later
  std::vector<ParameterSpec> parameters;
  OptimizerOptions optimizer;
  std::string schedule = "constant";
  EpochSize epoch{};
  int grains = 1;
  Step target = 0;  // kNoTarget: until somebody halts it
  CenterRule rule;
  Step step = 0;              // where the run goes on
  std::uint64_t opening = 0;  // which time that it was opened: a random number
  CenterMoment origin{};      // whose state it goes on with, where that is known
  std::string weightsHash{};  // of the weights that it begins with
};

// The part of the arena that is one server's: all have as many floats.
ArenaRange sliceOfServer(std::size_t arenaSize, int server, int servers);

// When a gradient becomes an update.
enum class Acceptance {
  AtOnce,        // when it comes: an update for each
  WhenComplete,  // when all grains of its step have come: one update for the step
  OnCommit       // when somebody says which of the step's grains count
};
Acceptance acceptanceOf(const CenterRule& rule);

// What an update does.
enum class Application {
  Optimize,  // what is sent is a gradient
  Add,       // what is sent is added: workers have weights of their own
  Mail       // the same, but what is sent is a letter to another worker
};
Application applicationOf(const CenterRule& rule);

std::unique_ptr<CenterPolicy> makePolicy(const CenterSetup& setup, const Progress& from);

}  // namespace cohort
