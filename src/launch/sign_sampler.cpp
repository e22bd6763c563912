#include "launch/sign_sampler.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <string_view>

#include <fmt/format.h>

namespace cohort {
namespace {

constexpr double kBeatSeconds = 0.05;
// Of a core: what a worker uses at least where it waits with one lane and computes with another. One that only waits has threads
// that wake up now and then.
constexpr double kBusyShare = 0.05;

double secondsOf(clockid_t clock) {
  timespec time{};
  return ::clock_gettime(clock, &time) == 0
             ? static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9
             : 0;
}

}  // namespace

double SignSampler::workSeconds(double otherSeconds) const {
  const double all = secondsOf(CLOCK_PROCESS_CPUTIME_ID);
  return all - secondsOf(CLOCK_THREAD_CPUTIME_ID) - otherSeconds -
         (workers_ == nullptr ? 0 : workers_->busySeconds());
}

void SignSampler::countWork(double work, bool isWaiting) {
  const double time = secondsSince(looked_);
  const double more = std::max(0.0, work - worked_);
  looked_ = Clock::now();
  worked_ = std::max(worked_, work);
  if (isWaiting && more < kBusyShare * time) return;
  counted_ += more;
  if (counted_ < kBeatSeconds) return;
  counted_ = 0;
  ++workBeats_;
}

// "worker 1: its part of step 12", as the whole run counts workers.
std::string SignSampler::waitingFor() const {
  constexpr std::string_view kWorker = "worker ";
  std::string text = workers_->waitingFor();
  int rank = 0;
  if (first_ == 0 || !text.starts_with(kWorker)) return text;
  const char* const begin = text.data() + kWorker.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), rank);
  if (error != std::errc()) return text;
  return fmt::format("{}{}{}", kWorker, first_ + rank,
                     text.substr(static_cast<std::size_t>(end - text.data())));
}

WorkerSign SignSampler::look(double otherSeconds) {
  const Activity::Snapshot now = activity_.now();
  WorkerSign sign{.step = now.step,
                  .isTraining = now.phase == Activity::Phase::Steps,
                  // A disk may take its time.
                  .mayRest = now.phase == Activity::Phase::Checkpoint || now.phase == Activity::Phase::Ending,
                  .doing = activity_.textOf(now)};
  if (workers_ != nullptr) {
    sign.waitsFor = waitingFor();
    sign.waitsForAnother = !sign.waitsFor.empty();
  }
  if (sign.waitsFor.empty() && now.isWaiting) {
    sign.waitsFor = fmt::format("server {}", std::max(0, now.server));
  }
  const bool isBetween = sign.isTraining && now.lane.doing == LanePlace::Doing::Nothing;
  if (isBetween && sign.waitsForAnother) sign.doing = "exchanging";
  countWork(workSeconds(otherSeconds), !sign.waitsFor.empty());
  sign.beats = now.beats + workBeats_ + (workers_ == nullptr ? 0 : workers_->doneMessages());
  if (sign.beats != beats_) moved_ = Clock::now();
  beats_ = sign.beats;
  sign.stillSeconds = secondsSince(moved_);
  const std::string stay = fmt::format("{} {} {} {}", now.step, now.beats, sign.doing, sign.waitsFor);
  if (stay != stay_) since_ = Clock::now();
  stay_ = stay;
  sign.doingSeconds = secondsSince(since_);
  return sign;
}

}  // namespace cohort
