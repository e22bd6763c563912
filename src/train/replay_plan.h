// What must be computed again, and with which weights, to come from servers' journals to certain moments. Private to train.
//
// The words are those of center/moment.h and center/journal.h. A *timeline* is the sequence of versions of one server's slice in one
// life of one opening. It begins where the opening does, or at a version of an earlier life, from whose snapshot the server came back:
// that one's later updates are lost to the run, but weights that somebody saw of them may be in its gradients. An opening begins
// with a moment of an earlier one, with what its seed says, or with a file's state.
//
// Where workers have weights of their own, an update is an *exchange* of one of them, and needs all that this worker has done before: it
// begins with a moment of the center, makes steps, exchanges, makes steps, and so on. What it does after the last exchange that counts
// is nobody's business. Under gossip it makes one step for each update, a *visit*, and needs before the next one what it found in its mail: an update gives
// that too, at the place that the next visit names. That somebody has left is an update without a work.
//
// Pure.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "center/journal.h"

namespace cohort {

// A version of a timeline.
struct TimelinePlace {
  int timeline = 0;
  Step version = 0;

  bool operator==(const TimelinePlace&) const = default;
};

struct ReplayTimeline {
  const Journal* journal = nullptr;
  int opening = 0;
  int parent = -1;                  // a timeline; -1: the opening
  Step needed = 0;                  // the last version that anybody needs
  std::vector<std::size_t> ends{};  // by update: behind its last work
  std::vector<int> works{};         // of all updates, in order

  bool isNeeded() const { return needed >= 0; }
  Step begin() const { return journal->head().version; }
  const CenterSetup& setup() const { return journal->head().setup; }
};

// What one worker has computed, or would have: the same for all servers that apply it. A gradient; or an exchange, and the steps before it.
struct ReplayWork {
  int opening = 0;
  Work work;
  std::vector<TimelinePlace>
      weights{};                  // by server: the gradient's, or what the exchange saw of the center's
  int uses = 0;                   // updates
  int worker = -1;                // an exchange's
  std::int64_t number = 0;        // of the worker's: 1, 2, 3 …
  std::span<const Step> steps{};  // that this one makes before it, with its own weights
};

// A worker with weights of its own, from when it begins with the center's.
struct ReplayWorker {
  int opening = 0;
  std::uint64_t token = 0;               // whose weights: as the journals' members have it
  std::int64_t needed = 0;               // the last of its exchanges that anybody needs
  std::vector<TimelinePlace> weights{};  // that it begins with, by server
  std::vector<int> works{};              // these exchanges, in order
};

struct ReplayOpening {
  std::uint64_t number = 0;
  const CenterSetup* setup = nullptr;
  int servers = 1;
  std::vector<TimelinePlace> origin{};  // by server of an earlier opening; none: it is not computed
  int originOpening = -1;
  bool isNeeded = false;
};

struct ReplayPlan {
  std::vector<ReplayOpening> openings;
  std::vector<ReplayTimeline> timelines;
  std::vector<ReplayWork> works;
  std::vector<ReplayWorker> workers;
  std::vector<std::vector<TimelinePlace>> moments;  // as they were wanted
  std::vector<int> momentOpenings;
  std::int64_t updates = 0;    // to apply
  std::int64_t gradients = 0;  // to compute
  std::int64_t lost = 0;       // of lives that ended, after their last snapshot
};

struct ReplayPlanOptions {
  // Whether the state that an opening began with can be had otherwise than by computing it.
  std::function<bool(const CenterSetup&)> hasState = [](const CenterSetup&) { return false; };
  int parts = 1;  // works that a step of several workers is cut into
};

// The journals outlive the plan. UsageError, with what is missing or contradicts itself, where a moment cannot be reached.
ReplayPlan planReplay(const std::vector<Journal>& journals, const std::vector<CenterMoment>& wanted,
                      const ReplayPlanOptions& options);

}  // namespace cohort
