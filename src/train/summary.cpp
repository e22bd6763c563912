#include "train/summary.h"

#include <nlohmann/json.hpp>

namespace cohort {

namespace {

// One list serves both directions.
template <class Worker, class Visit>
void visitFields(Worker& w, Visit&& visit) {
  visit("host", w.host);
  visit("lanes", w.lanes);
  visit("images_per_s", w.imagesPerSecond);
  visit("images_per_s_uncertainty", w.uncertainty);
  visit("images_per_s_jitter", w.jitter);
  visit("wait_s", w.waitSeconds);
  visit("communication_s", w.communicationSeconds);
  visit("data_s", w.dataSeconds);
  visit("sent_bytes_per_step", w.sentBytesPerStep);
  visit("peak_memory_bytes", w.peakMemoryBytes);
}

nlohmann::ordered_json jsonOf(const WorkerSummary& worker) {
  nlohmann::ordered_json object;
  visitFields(worker, [&](const char* key, const auto& field) { object[key] = field; });
  return object;
}

nlohmann::ordered_json jsonOf(const std::vector<ServerStatus>& center) {
  const ServerStatus& leader = center.front();
  nlohmann::ordered_json object{{"rule", leader.rule}, {"dropped", leader.dropped}};
  object["members"] = nlohmann::ordered_json::array();
  for (const ServerStatus::Member& member : leader.members) {
    object["members"].push_back(
        {{"name", member.name}, {"works", member.finished}, {"chief", member.isChief}});
  }
  object["servers"] = nlohmann::ordered_json::array();
  for (const ServerStatus& server : center) {
    object["servers"].push_back({{"parameters", server.floats},
                                 {"updates", server.version},
                                 {"update_s", server.updateSeconds},
                                 {"duplicates", server.duplicates},
                                 {"lost", server.lost},
                                 {"staleness", server.staleness},
                                 {"bytes_received", server.bytesReceived},
                                 {"bytes_sent", server.bytesSent}});
    if (server.shares) {
      object["servers"].back()["shares"] = {{"workers", server.shares->workers},
                                            {"mail", server.shares->mail},
                                            {"nobodys", server.shares->nobodys}};
    }
  }
  return object;
}

nlohmann::ordered_json jsonOf(const RunSummary::Virtual& run) {
  const VirtualOutcome& all = run.outcome;
  nlohmann::ordered_json object{{"workers", run.workers}, {"servers", run.servers},
                                {"samples", run.samples}, {"bytes", all.bytes},
                                {"events", all.events},   {"failures", all.failures},
                                {"lost", all.lost},       {"dropped", all.dropped}};
  object["staleness"] = nlohmann::ordered_json::array();
  for (const auto& [staleness, updates] : all.staleness) object["staleness"].push_back({staleness, updates});
  object["classes"] = nlohmann::ordered_json::array();
  for (const VirtualOutcome::Class& own : all.classes) {
    object["classes"].push_back({{"name", own.name},
                                 {"workers", own.workers},
                                 {"works", own.works},
                                 {"compute_s", secondsOf(own.computing)},
                                 {"wait_s", secondsOf(own.waiting)},
                                 {"away_s", secondsOf(own.away)}});
  }
  return object;
}

}  // namespace

std::string toJson(const WorkerSummary& worker) {
  return jsonOf(worker).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

WorkerSummary workerSummary(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  WorkerSummary worker;
  visitFields(worker, [&](const char* key, auto& field) {
    const auto& value = json.at(key);
    if (!value.is_null()) value.get_to(field);
  });
  return worker;
}

double RunSummary::movedBytesPerSample() const {
  const auto steps = static_cast<double>(step - startStep);
  double bytes = 0;
  double samples = steps * static_cast<double>(batchSize);
  if (inVirtualTime) {
    bytes = static_cast<double>(inVirtualTime->outcome.bytes);
    samples = static_cast<double>(inVirtualTime->samples);
  } else {
    for (const WorkerSummary& worker : workers) bytes += worker.sentBytesPerStep * steps;
    for (const ServerStatus& server : center)
      bytes += static_cast<double>(server.bytesReceived + server.bytesSent);
  }
  return samples > 0 ? bytes / samples : 0;
}

void addTimes(RunSummary& summary, const TimeShares& seconds) {
  summary.dataSeconds = seconds.data;
  summary.forwardSeconds = seconds.forward;
  summary.backwardSeconds = seconds.backward;
  summary.updateSeconds = seconds.update;
  summary.waitSeconds = seconds.wait;
}

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
      {"sent_bytes_per_step", s.sentBytesPerStep},
      {"moved_bytes_per_sample", s.movedBytesPerSample()},
      {"peak_memory_bytes", s.peakMemoryBytes},
      {"threads", s.threads},
      {"time_share_conv", nullptr},
      {"time_share_dense", nullptr},
      {"time_share_pool", nullptr},
      {"time_share_collective", nullptr},
      {"weight_share_dense", nullptr},
      {"weights_hash", s.weightsHash},
      {"checkpoint", s.checkpoint},
      {"interrupted", s.interrupted},
      {"virtual_s", nullptr},
      {"samples_per_virtual_s", nullptr},
  };
  if (s.evaluation) {
    json["accuracy"] = s.evaluation->accuracy();
    json["top5"] = s.evaluation->top5Accuracy();
    json["test_loss"] = s.evaluation->meanLoss();
  }
  if (s.layerShares) {
    json["time_share_conv"] = s.layerShares->conv;
    json["time_share_dense"] = s.layerShares->dense;
    json["time_share_pool"] = s.layerShares->pool;
    json["time_share_collective"] = s.layerShares->collective;
    json["weight_share_dense"] = s.denseWeightShare;
  }
  json["workers"] = nlohmann::ordered_json::array();
  for (const WorkerSummary& worker : s.workers) json["workers"].push_back(jsonOf(worker));
  if (s.inVirtualTime) {
    json["virtual_s"] = secondsOf(s.inVirtualTime->outcome.time);
    json["samples_per_virtual_s"] = s.inVirtualTime->samplesPerSecond();
    json["virtual"] = jsonOf(*s.inVirtualTime);
  }
  if (!s.center.empty()) json["center"] = jsonOf(s.center);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace cohort
