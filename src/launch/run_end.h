// How a run ended, as its summary.json tells whoever shares its folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/batch.h"

namespace cohort {

struct RunEnd {
  Step step = 0;
  bool isInterrupted = false;
};

// Nothing where there is no summary, or none that can be read.
std::optional<RunEnd> readRunEnd(const std::filesystem::path& jobDirectory);

// Tells an end that came since this was made from that of an earlier part of the run.
class RunEndWatch {
 public:
  explicit RunEndWatch(std::filesystem::path jobDirectory);
  std::optional<RunEnd> look() const;

 private:
  std::filesystem::path directory_;
  std::string before_;  // the summary's text; empty where there was none
};

}  // namespace cohort
