#include "launch/peer_watch.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "launch/stall.h"

namespace cohort {
namespace {

// A process that was stopped for longer than this, perhaps with all others, begins to watch anew.
constexpr double kOwnPause = 5;
// One to whom something came, or who did something, meanwhile, does not stand.
constexpr double kStands = 2;

}  // namespace

std::string PeerWatch::look(const WorkerStatus& own, int count) {
  const bool wasPaused =
      secondsSince(std::exchange(last_, Clock::now())) > std::min(kOwnPause, 1 + stallSeconds_ / 2);
  if (!own.waitsForAnother || own.stillSeconds < std::min(kStands, stallSeconds_) || wasPaused) {
    begin_ = Clock::now();
    seen_.clear();
    return "";
  }
  std::vector<WorkerView> views;
  for (const WorkerStatus& status : readStatuses(directory_)) {
    int number = -1;
    std::from_chars(status.name.data(), status.name.data() + status.name.size(), number);
    if (status.isServer || number < 0 || number >= count) continue;
    Seen& seen = seen_[status.name];
    if (seen.written != status.written) seen = {.written = status.written};
    const double watched = secondsSince(begin_);
    views.push_back({.name = status.name,
                     .host = status.host,
                     .silentSeconds = secondsSince(seen.changed),
                     .stillSeconds = std::min(status.stillSeconds, watched),
                     .mayRest = status.mayRest,
                     .doing = status.doing,
                     .waitsFor = status.waitsFor,
                     .waitsForAnother = status.waitsForAnother,
                     .step = status.step});
  }
  // Where one has not said anything yet, the others may wait for it.
  if (static_cast<int>(views.size()) < count) return "";
  const std::optional<Stall> stall =
      findStall(views, {.silentSeconds = stallSeconds_, .stillSeconds = stallSeconds_});
  return stall ? stall->sentence : "";
}

}  // namespace cohort
