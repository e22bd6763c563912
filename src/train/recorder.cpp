#include "train/recorder.h"

#include <utility>

#include "report/event_file.h"
#include "report/metrics_file.h"

namespace cohort {

Recorder::Recorder(const RunConfig& config, const JobDirectory& job, Communicator& workers,
                   const Ownership& owned, const TrainingState& state, int tag)
    : workers_(workers),
      state_(state),
      startStep_(state.step),
      receiptEvery_(config.receiptEvery),
      traces_(config.trace) {
  if (config.histograms) {
    gradients_ = FloatBuffer(state.layout.size());
    // Each worker's own where it steps alone: the first one's are recorded.
    if (!state.ownSlots) gather_ = std::make_unique<SliceGather>(workers, owned, gradients_.span(), tag);
  }
  if (!workers.isFirst()) return;
  auto metrics = std::make_unique<MetricsFile>(job.path() / "metrics.jsonl", startStep_);
  evaluationRecorded_ = metrics->hasEvaluation(config.evalOn);
  sinks_.push_back(std::move(metrics));
  sinks_.push_back(std::make_unique<EventFiles>(job.path() / "events", startStep_));
  if (receiptEvery_ > 0) receipts_.emplace(job.path() / "receipt.jsonl", startStep_);
}

void Recorder::record(const auto& point) {
  for (const auto& sink : sinks_) sink->add(point);
}

void Recorder::add(const TrainPoint& point) {
  record(point);
  if (gradients_.size() > 0) recordDistributions();
  flush();
}

void Recorder::add(const EvaluationPoint& point) {
  if (point.step != startStep_ || !evaluationRecorded_) record(point);
}

void Recorder::recordDistributions() {
  if (gather_) gather_->run("the gradients");
  if (!workers_.isFirst()) return;
  for (const Parameter& parameter : state_.layout.parameters()) {
    if (parameter.kind != ParameterKind::Weight) continue;
    const auto part = [&](std::span<const float> arena) {
      return arena.subspan(parameter.offset, parameter.size);
    };
    record(ValuesPoint{state_.step, "weights/" + parameter.name, part(state_.weights.span())});
    record(ValuesPoint{state_.step, "gradients/" + parameter.name, part(gradients_.span())});
  }
}

// Parameters in the order of the layers, which is not the arena's.
void Recorder::addReceipt(double loss) {
  if (!receipts_) return;
  Receipt receipt{.step = state_.step, .loss = loss, .weights = weightsHash(state_.weights.span())};
  if (traces_) {
    const std::span<const Parameter> parameters = state_.layout.parameters();
    for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
      receipt.parameters.emplace_back(
          parameter->name, weightsHash(state_.weights.span().subspan(parameter->offset, parameter->size)));
    }
  }
  receipts_->add(receipt);
}

void Recorder::flush() {
  for (const auto& sink : sinks_) sink->flush();
  if (receipts_) receipts_->flush();
}

}  // namespace cohort
