// DIR/.fetch, where everything is until it is finished, and its lock. Private to fetch.
//
// Of what a killed call leaves only files NAME.part are of use to the next one; the rest is removed when it starts.
#pragma once

#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace cohort {

class Staging {
 public:
  // Creates both folders. UsageError where another process has them; IoError where they cannot be written.
  explicit Staging(std::filesystem::path directory);
  // What is worth keeping stays; folders that this object made and that are empty go.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  // A new empty folder in here.
  std::filesystem::path makeFolder(const std::string& name) const;
  // All is done: nothing is kept.
  void finish();

 private:
  bool lock();
  void removeAllBut(bool parts) const;

  std::filesystem::path directory_;
  std::filesystem::path folder_;
  bool madeDirectory_ = false;
  Descriptor lock_;
};

}  // namespace cohort
