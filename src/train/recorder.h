// What a run leaves in its job directory while it goes: metrics, event files, distributions, receipts. The first worker writes;
// the others bring what they have. Private to train.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/float_buffer.h"
#include "report/receipt_file.h"
#include "report/records.h"
#include "sync/bucket_plan.h"
#include "sync/slice_gather.h"
#include "train/job_directory.h"
#include "train/run_config.h"
#include "train/training_state.h"

namespace cohort {

class Recorder {
 public:
  // Goes on at the state's step. Everything outlives this. Tags from `tag` on are its own, one for each slice of
  // a worker.
  Recorder(const RunConfig& config, const JobDirectory& job, Communicator& workers, const Ownership& owned,
           const TrainingState& state, int tag);

  // Where the sums of a step before a log point are to be kept; empty where nobody wants them.
  std::span<float> gradients() { return gradients_.span(); }

  // By all workers at once.
  void add(const TrainPoint& point);
  // An evaluation that is in the records already, of a run that was finished before, is not recorded again.
  void add(const EvaluationPoint& point);
  bool wantsReceipt(Step step) const { return receiptEvery_ > 0 && step % receiptEvery_ == 0; }
  void addReceipt(double loss);
  // Before every checkpoint: a process that resumes there records no earlier point again.
  void flush();

 private:
  void record(const auto& point);
  void recordDistributions();

  Communicator& workers_;
  const TrainingState& state_;
  Step startStep_;
  Step receiptEvery_;
  bool traces_;
  bool evaluationRecorded_ = false;  // of startStep_
  FloatBuffer gradients_;            // empty where no distributions are recorded
  std::unique_ptr<SliceGather> gather_;
  std::vector<std::unique_ptr<RecordSink>> sinks_;
  std::optional<ReceiptFile> receipts_;
};

}  // namespace cohort
