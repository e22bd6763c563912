// metrics.jsonl: one JSON object a line for every log point and evaluation of a run. docs/records.md has the keys.
// See step_lines.h for how it grows.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "report/records.h"

namespace cohort {

class StepLines;

struct Metrics {
  std::vector<TrainPoint> training;
  std::vector<EvaluationPoint> evaluations;
};

// All points in the file's order. A last line that has no end is used where it is whole, and ignored where it is torn.
// IoError with the file and the line where anything else is no record.
Metrics readMetrics(const std::filesystem::path& path);

// Used by one thread; the file has one writer.
class MetricsFile final : public RecordSink {
 public:
  // Goes on after `resumeStep` (0: a new run): what a process before had written of later steps is taken away, in one move;
  // other lines stay as they are. The folder must exist.
  MetricsFile(const std::filesystem::path& path, Step resumeStep);
  ~MetricsFile() override;
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // An evaluation of `resumeStep` on this split ("test", "validation") was there.
  bool hasEvaluation(const std::string& split) const { return evaluated_.contains(split); }

  using RecordSink::add;
  void add(const TrainPoint& point) override;
  void add(const EvaluationPoint& point) override;
  // After an IoError the next call goes on where this one stopped: no line is torn or written twice.
  void flush() override;

 private:
  std::unique_ptr<StepLines> lines_;
  std::set<std::string> evaluated_;
};

}  // namespace cohort
