#include "center/snapshot_writer.h"

#include "base/error.h"

namespace cohort {

void SnapshotWriter::write(Snapshot snapshot) {
  last_ = Clock::now();
  isBusy_ = true;
  thread_ = std::jthread([this, snapshot = std::move(snapshot)]() mutable {
    try {
      writeSnapshot(file_, std::move(snapshot));
    } catch (const IoError& error) {
      warn_(error.what());
    }
    isBusy_ = false;
  });
}

}  // namespace cohort
