// A worker's (or server's) line to its supervisor. Without one (nobody supervises) everything here does nothing.
//
// A thread tells a few times a second that the process lives and what it does. A supervisor that does not read is waited for
// briefly where a line must not be lost, and not at all for signs of life and progress. Thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "report/console.h"
#include "train/activity.h"

namespace cohort {

// Set for supervised workers: the FIFO's path.
inline constexpr const char* kSupervisorVariable = "COHORT_SUPERVISOR";

class SupervisorLink : public Screen {
 public:
  // `fifo` empty: no supervisor. IoError where it cannot be opened.
  explicit SupervisorLink(const std::filesystem::path& fifo);
  ~SupervisorLink() override;
  SupervisorLink(const SupervisorLink&) = delete;
  SupervisorLink& operator=(const SupervisorLink&) = delete;

  explicit operator bool() const { return impl_ != nullptr; }
  // From now on until `unwatch`, tells of this worker; both live until then.
  void watch(Communicator& workers, const Activity& activity);
  // The same for a worker of a center.
  void watch(int worker, const Activity& activity);
  void unwatch();

  // The last words.
  void failed(int worker, const std::string& sentence, int exitCode);
  void finished(int worker, int exitCode);
  // A server's.
  void serverFailed(int server, const std::string& sentence, int exitCode);
  // What the first worker has to show.
  void print(const std::string& line) override;
  void detail(const std::string& line) override;
  void result(const std::string& line) override;
  void warn(const std::string& what) override;
  void progress(const ProgressReport& report) override;
  void endProgress() override {}

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
