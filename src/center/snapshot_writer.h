// Writes a server's snapshots in the background, one at a time. Used by one thread. Private to center.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "center/snapshot.h"

namespace cohort {

class SnapshotWriter {
 public:
  using WriteFile = std::function<void(const std::filesystem::path&, Snapshot)>;

  // `every` in seconds. What fails is told to `warn`, on any thread: the server goes on.
  SnapshotWriter(std::filesystem::path file, double every, std::function<void(const std::string&)> warn,
                 WriteFile writeFile = writeSnapshot)
      : file_(std::move(file)), every_(every), warn_(std::move(warn)), writeFile_(std::move(writeFile)) {}

  bool isDue() const { return !isBusy_ && (isDueAtOnce_ || secondsSince(last_) >= every_); }
  // When it is due: `take` says what, at once.
  void write(const std::function<Snapshot()>& take);
  // What was written, or is being written, counts no more: when this returns, the file is gone. The next is due at once.
  void forget();
  const std::filesystem::path& file() const { return file_; }

 private:
  void warn(const char* what) const;

  std::filesystem::path file_;
  double every_;
  std::function<void(const std::string&)> warn_;
  WriteFile writeFile_;
  Clock::time_point last_ = Clock::now();
  bool isDueAtOnce_ = false;
  std::atomic<bool> isBusy_ = false;
  std::jthread thread_;  // the last: it ends before the others do
};

}  // namespace cohort
