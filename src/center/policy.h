// A center's brain: who computes what, and which gradients count. Pure: events in, decisions out, with no clock, no thread and no
// socket inside, so that the same code runs over a network, in one process, or in virtual time.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "base/grain_tree.h"

namespace cohort {

// A worker that has joined; numbers are never used again in a run.
using MemberId = int;

// What a member computes at a time: some grains of one step's batch.
struct Work {
  Step step = 0;
  GrainRange grains;

  bool operator==(const Work&) const = default;
};

// ---- events

struct Joined {
  MemberId member = 0;
};
// Dead, or of its own will: what it had not finished, others will.
struct Left {
  MemberId member = 0;
};
// The gradient of this work is with all servers.
struct Finished {
  MemberId member = 0;
  Work work;
};
// No new work from now on; what is begun is finished.
struct Halted {};

using Event = std::variant<Joined, Left, Finished, Halted>;

// ---- decisions

// The member computes this, with weights of at least this version.
struct Assign {
  MemberId member = 0;
  Work work;
  Step version = 0;

  bool operator==(const Assign&) const = default;
};
// These grains' gradients make the update of this step; others of it come too late.
struct Commit {
  Step step = 0;
  std::vector<GrainRange> grains;

  bool operator==(const Commit&) const = default;
};
// It came too late, or twice.
struct Drop {
  MemberId member = 0;
  Work work;

  bool operator==(const Drop&) const = default;
};
// All is done, or halted and finished.
struct End {
  bool operator==(const End&) const = default;
};

using Decision = std::variant<Assign, Commit, Drop, End>;

// How far a run is: what a policy needs to go on after a restart.
struct Progress {
  Step done = 0;           // steps that are finished
  Step next = 0;           // the first that nobody was ever given
  std::vector<Step> open;  // below that, those that are not finished; in order

  bool operator==(const Progress&) const = default;
};

class CenterPolicy {
 public:
  virtual ~CenterPolicy() = default;
  virtual std::vector<Decision> handle(const Event& event) = 0;
  virtual Progress progress() const = 0;
};

// Every member steps alone, on a batch of its own.
struct AsyncOptions {
  Step target = 0;  // steps of all members together
  int grains = 1;
  std::optional<Step> staleness{};  // nobody is more than so many steps ahead of the slowest
  int ahead = 1;                    // works that a member is given before it has finished the last
};
std::unique_ptr<CenterPolicy> asyncPolicy(const AsyncOptions& options, const Progress& from = {});

// All members share every step.
struct SynchronousOptions {
  Step target = 0;
  int grains = 1;
  int members = 1;  // that the first step waits for
  int backups = 0;  // as many of a step's parts are not waited for
};
std::unique_ptr<CenterPolicy> synchronousPolicy(const SynchronousOptions& options, const Progress& from = {});

}  // namespace cohort
