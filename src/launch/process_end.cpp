#include "launch/process_end.h"

#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "train/checkpoint.h"

namespace cohort {

std::string deathText(int code) {
  constexpr int kSignals = 128;
  if (code <= kSignals) return fmt::format("ended with code {}", code);
  return fmt::format("was ended by signal {} ({})", code - kSignals, strsignal(code - kSignals));
}

std::string nameOf(const WorkerMessage& message) {
  return fmt::format("{} {}", message.isServer ? "server" : "worker", message.worker);
}

void throwFailure(const WorkerMessage& failure) {
  if (failure.exitCode == kUsageCode) throw UsageError(failure.text);
  const std::string sentence = fmt::format("{}: {}", nameOf(failure), failure.text);
  if (failure.exitCode == kIoCode) throw IoError(sentence);
  throw PeerError(sentence);
}

std::string unfinished(std::string sentence) {
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

Step newestCheckpoint(const JobDirectory& job) {
  const std::vector<CheckpointFile> files = listCheckpoints(job.checkpoints());
  return files.empty() ? -1 : files.back().step;
}

std::string placeText(Step step) {
  return step < 0 ? "the beginning" : fmt::format("the checkpoint of step {}", step);
}

}  // namespace cohort
