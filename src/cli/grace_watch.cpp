#include "cli/grace_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "launch/batch_script.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// How long a checkpoint of so many bytes takes, by a part of it that is written there and removed again.
double guessedSeconds(const fs::path& folder, std::uint64_t bytes) {
  constexpr std::uint64_t kMost = 32 << 20;
  const std::vector<std::byte> part(std::min(bytes, kMost));
  const fs::path file = folder / "write-speed";
  const Clock::time_point start = Clock::now();
  AtomicFile written(file);
  written.write(part);
  written.commit();
  const double seconds = secondsSince(start);
  std::error_code ignored;  // a file that stays does no harm
  fs::remove(file, ignored);
  return seconds * static_cast<double>(bytes) / static_cast<double>(part.size());
}

}  // namespace

std::optional<double> graceSeconds(const Environment& environment) {
  const std::optional<int> seconds = numberOf(environment, kGraceVariable);
  return seconds ? std::optional<double>(*seconds) : std::nullopt;
}

std::string graceNote(double grace, double seconds, const std::string& why) {
  constexpr double kReserve = 2;
  constexpr double kLeast = 10;
  if (kReserve * seconds <= grace) return "";
  return fmt::format(
      "to stop, this run needs about {:.1f} s ({}), and it is told {:.0f} s before its end; with cohort "
      "slurm, "
      "--grace {:.0f} would do",
      seconds, why, grace, std::max(kLeast, std::ceil(2 * kReserve * seconds)));
}

GraceWatch::GraceWatch(double grace, fs::path jobDirectory, Screen& screen)
    : grace_(grace), jobDirectory_(std::move(jobDirectory)), screen_(screen) {}

void GraceWatch::started(const Started& run) {
  if (run.checkpointBytes == 0) return;
  compare(guessedSeconds(jobDirectory_, run.checkpointBytes), "a checkpoint, by how fast the disk is");
}

void GraceWatch::progressed(const Progress&) {
  const Clock::time_point now = Clock::now();
  if (lastStep_)
    stepSeconds_ = std::max(stepSeconds_, std::chrono::duration<double>(now - *lastStep_).count());
  lastStep_ = now;
}

void GraceWatch::checkpointWritten(double seconds) {
  compare(stepSeconds_ + seconds,
          fmt::format("a step {:.1f} s, a checkpoint {:.1f} s", stepSeconds_, seconds));
}

void GraceWatch::compare(double seconds, const std::string& why) {
  if (hasWarned_) return;
  const std::string note = graceNote(grace_, seconds, why);
  if (note.empty()) return;
  screen_.warn(note);
  hasWarned_ = true;
}

}  // namespace cohort
