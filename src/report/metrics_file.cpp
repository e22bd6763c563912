#include "report/metrics_file.h"

#include <chrono>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/error.h"
#include "report/step_lines.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = StepJson;

// A field of a record and its key; one list serves writing and reading.
template <class Point, class Visit>
requires std::is_same_v<std::remove_const_t<Point>, TrainPoint>
void visitFields(Point& point, Visit&& visit) {
  visit("step", point.step);
  visit("epoch", point.epoch);
  visit("loss", point.loss);
  visit("accuracy", point.accuracy);
  visit("lr", point.learningRate);
  visit("images_per_s", point.imagesPerSecond);
  visit("elapsed_s", point.elapsedSeconds);
  visit("data_s", point.seconds.data);
  visit("forward_s", point.seconds.forward);
  visit("backward_s", point.seconds.backward);
  visit("update_s", point.seconds.update);
  visit("wait_s", point.seconds.wait);
  visit("checkpoint_s", point.seconds.checkpoint);
  visit("evaluation_s", point.seconds.evaluation);
}

template <class Point, class Visit>
requires std::is_same_v<std::remove_const_t<Point>, EvaluationPoint>
void visitFields(Point& point, Visit&& visit) {
  visit("step", point.step);
  visit("loss", point.loss);
  visit("accuracy", point.accuracy);
  visit("top5", point.top5);
  visit("samples", point.samples);
}

constexpr const char* kVirtualSeconds = "virtual_s";

template <class Point, class Visit>
requires std::is_same_v<std::remove_const_t<Point>, VirtualClock>
void visitFields(Point& clock, Visit&& visit) {
  visit(kVirtualSeconds, clock.seconds);
  visit("trained_samples", clock.samples);
}

std::string isoTime() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

template <class Point>
Json jsonOf(const std::string& kind, const Point& point) {
  Json json{{"kind", kind}};
  // The library writes numbers that are not finite as null.
  visitFields(point, [&](const char* key, const auto& field) { json[key] = field; });
  if (point.clock.isThere())
    visitFields(point.clock, [&](const char* key, const auto& field) { json[key] = field; });
  json["time"] = isoTime();
  return json;
}

template <class Point>
Point pointOf(const Json& json) {
  Point point;
  visitFields(point, [&](const char* key, auto& field) { load(json, key, field); });
  if (json.contains(kVirtualSeconds)) {
    visitFields(point.clock, [&](const char* key, auto& field) { load(json, key, field); });
  }
  return point;
}

void addRecord(Metrics& metrics, const Json& json) {
  const Json& kind = member(json, "kind");
  if (kind == "train") {
    metrics.training.push_back(pointOf<TrainPoint>(json));
  } else if (kind == "test" || kind == "validation") {
    metrics.evaluations.push_back(pointOf<EvaluationPoint>(json));
    metrics.evaluations.back().split = kind.get<std::string>();
  } else {
    throw NoRecord("\"kind\" is not train, test or validation");
  }
}

// The splits that were evaluated at this step, by the file.
std::set<std::string> evaluationsAt(const fs::path& path, Step step) {
  std::set<std::string> splits;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return splits;
  forEachStepLine(path, [&](const Json& json) {
    const auto kind = json.find("kind");
    if (json["step"] == step && kind != json.end() && *kind != "train" && kind->is_string()) {
      splits.insert(kind->get<std::string>());
    }
  });
  return splits;
}

}  // namespace

Metrics readMetrics(const fs::path& path) {
  Metrics metrics;
  forEachStepLine(path, [&](const Json& json) { addRecord(metrics, json); });
  return metrics;
}

MetricsFile::MetricsFile(const fs::path& path, Step resumeStep)
    : lines_(std::make_unique<StepLines>(path, resumeStep)), evaluated_(evaluationsAt(path, resumeStep)) {}

MetricsFile::~MetricsFile() = default;

void MetricsFile::add(const TrainPoint& point) {
  lines_->add(jsonOf("train", point));
}

void MetricsFile::add(const EvaluationPoint& point) {
  COHORT_CHECK(point.split == "test" || point.split == "validation",
               "a split without a name in metrics.jsonl");
  lines_->add(jsonOf(point.split, point));
}

void MetricsFile::flush() {
  lines_->flush();
}

}  // namespace cohort
