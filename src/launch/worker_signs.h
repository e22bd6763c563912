// Tells of a worker of this process while it works: its supervisor, a few times a second, and in JOB_DIR/status about once a
// second. Where nobody supervises, it also judges: a worker that waits for others longer than it should looks at what they say of
// themselves, and gives the run up where one of them stands still.
//
// Threads of its own do all that; nothing here makes training wait, even where a disk does not answer.
#pragma once

#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "launch/supervisor_link.h"
#include "train/activity.h"

namespace cohort {

class WorkerSigns {
 public:
  struct Watched {
    int worker = 0;
    Communicator* workers =
        nullptr;  // its way to the others; nullptr for one of a center that is in no group
    const Activity& activity;
    int first = 0;  // the number of the first one of these
  };
  // All outlive this.
  WorkerSigns(SupervisorLink& link, const Watched& watched);
  ~WorkerSigns();
  WorkerSigns(const WorkerSigns&) = delete;
  WorkerSigns& operator=(const WorkerSigns&) = delete;

  // From now on in this folder too, under this name.
  void publish(const std::filesystem::path& jobDirectory, const std::string& name, double stallSeconds);
  // Calls `work`, and takes the status away after it; that of a worker that failed stays, with its last words.
  template <class Work>
  auto during(const Work& work) {
    try {
      auto result = work();
      withdraw();
      return result;
    } catch (const std::exception& error) {
      failed(error.what());
      throw;
    }
  }

 private:
  void withdraw();
  void failed(const std::string& sentence);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
