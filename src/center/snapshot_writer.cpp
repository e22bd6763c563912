#include "center/snapshot_writer.h"

#include <exception>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

void SnapshotWriter::warn(const char* what) const {
  warn_(fmt::format("there is no new snapshot at {}: {}", file_.string(), what));
}

void SnapshotWriter::write(const std::function<Snapshot()>& take) {
  last_ = Clock::now();
  isDueAtOnce_ = false;
  isBusy_ = true;
  try {
    thread_ = std::jthread([this, snapshot = take()]() mutable {
      try {
        writeFile_(file_, std::move(snapshot));
      } catch (const IoError& error) {
        warn_(error.what());
      } catch (const std::exception& error) {
        warn(error.what());
      }
      isBusy_ = false;
    });
  } catch (const std::exception& error) {  // neither memory nor a thread
    isBusy_ = false;
    warn(error.what());
  }
}

void SnapshotWriter::forget() {
  if (thread_.joinable()) thread_.join();
  isDueAtOnce_ = true;
  std::error_code error;
  std::filesystem::remove(file_, error);
  if (error)
    warn_(fmt::format("{} is out of date and cannot be removed: {}", file_.string(), error.message()));
}

}  // namespace cohort
