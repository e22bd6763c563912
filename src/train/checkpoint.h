// Checkpoints of a job directory: checkpoints/step-0000000900.safetensors, the last few kept.
//
// A file holds every parameter under its name, every slot as "slot.SLOT.PARAMETER" (all plain, row-major), and in its
// metadata "cohort.step", "cohort.config" (YAML), "cohort.hash.weights" and "cohort.hash.SLOT": hashes of the arenas,
// and "cohort.hash.run" of the step and the configuration. With a center, "cohort.center" says which of its servers' updates are in it.
// A file whose contents do not fit their hashes is damaged: it is reported, and the one before is used.
//
// With several workers it is still one file: each writes the slices that it owns, reads back and hashes a share of all chunks,
// and the first one puts the header in front, last of all, and gives the file its name. What fails on one worker fails on all.
//
// save() copies the state and writes in the background; saveNow() writes from the state itself. Used by one thread; all
// workers make the same calls in the same order.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/channel.h"
#include "train/training_state.h"

namespace cohort {

struct CheckpointFile {
  std::filesystem::path path;
  Step step = 0;
};

// In the order of their steps; none where there is no such folder.
std::vector<CheckpointFile> listCheckpoints(const std::filesystem::path& directory);

class CheckpointStore {
 public:
  CheckpointStore(std::filesystem::path directory, int keep, Communicator& workers);
  ~CheckpointStore();

  std::vector<CheckpointFile> list() const { return listCheckpoints(directory_); }
  std::filesystem::path pathOf(Step step) const;

  // Returns when the state is copied; waits for an earlier one still being written. An IoError of an earlier write is
  // thrown here, in saveNow or in wait. Weights that are not finite are not written: a UsageError.
  void save(TrainingState& state, const std::string& config);
  std::filesystem::path saveNow(TrainingState& state, const std::string& config);
  void wait();
  // How long the last one took from its begin until it had its name, where one has been finished since the last call.
  std::optional<double> takeSeconds();

  // Restores the newest checkpoint that is whole, as the first worker sees it, who tells `damaged` of each that is not. Nothing
  // where there is none.
  std::optional<CheckpointFile> restoreLatest(TrainingState& state,
                                              const std::function<void(const std::string&)>& damaged) const;

 private:
  class Writer;

  void removeOld(Step newest) const;

  std::filesystem::path directory_;
  int keep_;
  Channel workers_;
  std::atomic<double> seconds_ = -1;  // negative: told already
  std::unique_ptr<Writer> writer_;
};

// Of one of this state, without its header.
std::uint64_t checkpointBytes(TrainingState& state);

// Fills the state from one file; IoError where it is damaged or of another network.
void restoreCheckpoint(const std::filesystem::path& path, TrainingState& state);

// The configuration of the process that wrote it, as YAML; IoError where it is damaged or no checkpoint.
std::string configOfCheckpoint(const std::filesystem::path& path);

// What a checkpoint says of itself; IoError as above.
struct CheckpointHead {
  std::string config;
  CenterMoment moment{};                        // with a center, where it is known
  std::map<std::string, std::string> hashes{};  // of "weights" and the slots
};
CheckpointHead headOfCheckpoint(const std::filesystem::path& path);

// Fills the weights that the file has by name, in any file of that format; UsageError where a name is missing there or
// its shape differs.
void initializeFrom(const std::filesystem::path& path, TrainingState& state);

}  // namespace cohort
