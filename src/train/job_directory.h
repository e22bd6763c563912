// A run's folder: config.yaml, summary.json, checkpoints/, and locks that keep a second run out while this one lives.
//
// `lock` is held by the process that leads the run (the only worker, the first of those that mpirun started, the supervisor);
// `workers.lock` is held, shared, by every worker. A leader that died may have left workers behind for a moment: the next one
// waits for them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/descriptor.h"

namespace cohort {

class JobDirectory {
 public:
  enum class Role {
    First,       // leads and works: the only worker, or the first
    Member,      // works; its leader was there before it
    Joined,      // works, and nobody leads: one of a center's workers that were started by hand
    Supervisor,  // leads
  };
  // Makes the folder where it is missing, locks it, and clears away what killed runs had half written. UsageError where
  // another process leads a run there, IoError where it cannot be made.
  explicit JobDirectory(std::filesystem::path path, Role role = Role::First);
  // A new folder without a configuration is removed again: the run failed before it began.
  ~JobDirectory();
  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;

  // A leader, before workers start: whether some of an earlier start still live, and then, without them, to clear away what
  // they had half written.
  bool hasWorkers() const;
  void removeLeftovers() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  void writeConfig(const std::string& yaml) const;
  void writeSummary(const std::string& json) const;
  void writeLayers(const std::string& json) const;

 private:
  void make() const;
  void lead();
  void waitForWorkers() const;

  std::filesystem::path path_;
  Descriptor lock_;         // a leader's
  Descriptor workersLock_;  // every worker's
  bool isNew_ = false;
};

// Whether workers of a run live that have locked this folder, which need not exist.
bool hasWorkers(const std::filesystem::path& jobDirectory);

// The stored configuration's text; nothing where the folder has none. UsageError where it has checkpoints all the same: a
// run of another configuration must not go on from them.
std::optional<std::string> storedConfig(const std::filesystem::path& jobDirectory);

// runs/NETWORK-DATE-N with the first N that is free.
std::filesystem::path newJobDirectory(const std::string& network);

}  // namespace cohort
