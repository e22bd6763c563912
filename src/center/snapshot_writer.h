// Writes a server's snapshots in the background, one at a time. Private to center.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "center/snapshot.h"

namespace cohort {

class SnapshotWriter {
 public:
  // `every` in seconds. What fails is told to `warn`, on a thread of its own: the server goes on.
  SnapshotWriter(std::filesystem::path file, double every, std::function<void(const std::string&)> warn)
      : file_(std::move(file)), every_(every), warn_(std::move(warn)) {}

  bool isDue() const { return !isBusy_ && secondsSince(last_) >= every_; }
  // When it is due.
  void write(Snapshot snapshot);
  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
  double every_;
  std::function<void(const std::string&)> warn_;
  Clock::time_point last_ = Clock::now();
  std::atomic<bool> isBusy_ = false;
  std::jthread thread_;
};

}  // namespace cohort
