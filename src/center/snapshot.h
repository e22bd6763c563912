// What a server keeps on its disk, to go on with after its death: a file that is written whole or not at all.
//
//   file := "cohortC1" length head floats
//   length is 32 bits, least significant byte first; the head is a wire::Snapshot and has the hash of all the rest. Private to center.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/float_buffer.h"
#include "center/center.pb.h"
#include "center/step_set.h"

namespace cohort {

struct Snapshot {
  wire::Snapshot head;
  std::vector<FloatBuffer> arenas;  // the weights, then the slots
};

// The steps whose gradients were applied, as a head has them: all below a bound, and above it where stretches begin and end, in turn.
void setApplied(wire::Snapshot& head, const StepSet& steps);
// UsageError where they make no sense.
StepSet appliedOf(const wire::Snapshot& head);

// Of all but itself.
std::string hashOf(const Snapshot& snapshot);
// IoError where that fails; an older file is then still there.
void writeSnapshot(const std::filesystem::path& path, Snapshot snapshot);
// Nothing where there is none; IoError where it is damaged.
std::optional<Snapshot> readSnapshot(const std::filesystem::path& path);

}  // namespace cohort
