#include "train/summary.h"

#include <nlohmann/json.hpp>

namespace cohort {

std::string toJson(const RunSummary& s) {
  nlohmann::ordered_json json{
      {"network", s.network},
      {"dataset", s.dataset},
      {"start_step", s.startStep},
      {"step", s.step},
      {"loss", s.loss},
      {"evaluated_on", s.evaluatedOn},
      {"accuracy", nullptr},
      {"top5", nullptr},
      {"test_loss", nullptr},
      {"elapsed_s", s.elapsedSeconds},
      {"startup_s", s.startupSeconds},
      {"cpu_s", s.cpuSeconds},
      {"images_per_s", s.speed.imagesPerSecond},
      {"images_per_s_uncertainty", s.speed.uncertainty},
      {"images_per_s_jitter", s.speed.jitter},
      {"median_step_s", s.speed.medianStepSeconds},
      {"data_s", s.dataSeconds},
      {"data_share", s.dataShare()},
      {"forward_s", s.forwardSeconds},
      {"backward_s", s.backwardSeconds},
      {"update_s", s.updateSeconds},
      {"wait_s", s.waitSeconds},
      {"checkpoint_s", s.checkpointSeconds},
      {"evaluation_s", s.evaluationSeconds},
      {"peak_memory_bytes", s.peakMemoryBytes},
      {"threads", s.threads},
      {"weights_hash", s.weightsHash},
      {"checkpoint", s.checkpoint},
      {"interrupted", s.interrupted},
  };
  if (s.evaluation) {
    json["accuracy"] = s.evaluation->accuracy();
    json["top5"] = s.evaluation->top5Accuracy();
    json["test_loss"] = s.evaluation->meanLoss();
  }
  return json.dump(2) + "\n";
}

}  // namespace cohort
