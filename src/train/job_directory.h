// A run's folder: config.yaml, summary.json, checkpoints/, and a lock that keeps a second run out while this one lives.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/descriptor.h"

namespace cohort {

class JobDirectory {
 public:
  // Makes the folder where it is missing, locks it, and clears away what killed runs had half written. UsageError where
  // another process has it, IoError where it cannot be made.
  explicit JobDirectory(std::filesystem::path path);
  // A new folder without a configuration is removed again: the run failed before it began.
  ~JobDirectory();
  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  void writeConfig(const std::string& yaml) const;
  void writeSummary(const std::string& json) const;
  void writeLayers(const std::string& json) const;

 private:
  void removeLeftovers() const;

  std::filesystem::path path_;
  Descriptor lock_;
  bool isNew_ = false;
};

// The stored configuration's text; nothing where the folder has none. UsageError where it has checkpoints all the same: a
// run of another configuration must not go on from them.
std::optional<std::string> storedConfig(const std::filesystem::path& jobDirectory);

// runs/NETWORK-DATE-N with the first N that is free.
std::filesystem::path newJobDirectory(const std::string& network);

}  // namespace cohort
