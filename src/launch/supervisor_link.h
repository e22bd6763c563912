// A worker's (or server's) line to its supervisor. Without one (nobody supervises) everything here does nothing.
//
// A supervisor that does not read is waited for
// briefly where a line must not be lost, and not at all for signs of life and progress. Thread-safe.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "report/console.h"

namespace cohort {

// Set for supervised workers: the FIFO's path.
inline constexpr const char* kSupervisorVariable = "COHORT_SUPERVISOR";

struct WorkerMessage;

class SupervisorLink : public Screen {
 public:
  // `fifo` empty: no supervisor. IoError where it cannot be opened.
  explicit SupervisorLink(const std::filesystem::path& fifo);
  ~SupervisorLink() override;
  SupervisorLink(const SupervisorLink&) = delete;
  SupervisorLink& operator=(const SupervisorLink&) = delete;

  explicit operator bool() const { return impl_ != nullptr; }
  // Which worker this is.
  void setWorker(int worker);
  // A sign of life; lost where nobody reads.
  void sign(const WorkerMessage& message);

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
