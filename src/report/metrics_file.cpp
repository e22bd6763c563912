#include "report/metrics_file.h"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <limits>
#include <string_view>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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

std::string isoTime() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

template <class Point>
std::string lineOf(const std::string& kind, const Point& point) {
  Json json{{"kind", kind}};
  // The library writes numbers that are not finite as null.
  visitFields(point, [&](const char* key, const auto& field) { json[key] = field; });
  json["time"] = isoTime();
  return json.dump() + "\n";
}

// What is wrong with a line, without its place.
class NoRecord : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

const Json& member(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) throw NoRecord(fmt::format("\"{}\" is missing", key));
  return *found;
}

void load(const Json& json, const char* key, double& field) {
  const Json& value = member(json, key);
  if (!value.is_number() && !value.is_null()) throw NoRecord(fmt::format("\"{}\" is no number", key));
  field = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

void load(const Json& json, const char* key, std::int64_t& field) {
  const Json& value = member(json, key);
  // Larger ones than int64_t's would come out negative.
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
    throw NoRecord(fmt::format("\"{}\" is no whole number from 0 on", key));
  }
  field = value.get<std::int64_t>();
}

template <class Point>
Point pointOf(const Json& json) {
  Point point;
  visitFields(point, [&](const char* key, auto& field) { load(json, key, field); });
  return point;
}

Json objectOf(std::string_view line) {
  Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) throw NoRecord("it is no JSON object");
  return json;
}

void addRecord(Metrics& metrics, std::string_view line) {
  const Json json = objectOf(line);
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

// Calls visit(line, whole) for every line; `whole` is false for a last one without an end.
template <class Visit>
void forEachLine(const fs::path& path, std::string_view text, Visit&& visit) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view line = text.substr(0, end);
    try {
      visit(line, whole);
    } catch (const NoRecord& error) {
      if (whole) {
        throw IoError(fmt::format("Line {} of {} is no record of a run: {}; remove the line.", number,
                                  path.string(), error.what()));
      }
    }
    text.remove_prefix(whole ? end + 1 : text.size());
  }
}

// The lines up to a step, each with its end.
std::string linesUpTo(const fs::path& path, const std::string& text, Step last) {
  std::string kept;
  forEachLine(path, text, [&](std::string_view line, bool whole) {
    std::int64_t step = 0;
    load(objectOf(line), "step", step);
    if (whole && step <= last) kept.append(line).push_back('\n');
  });
  return kept;
}

// What lines of this step are about, but for training.
std::set<std::string> evaluationsAt(const fs::path& path, const std::string& text, Step step) {
  std::set<std::string> splits;
  forEachLine(path, text, [&](std::string_view line, bool) {
    const Json json = objectOf(line);
    const auto kind = json.find("kind");
    if (json["step"] == step && kind != json.end() && *kind != "train" && kind->is_string()) {
      splits.insert(kind->get<std::string>());
    }
  });
  return splits;
}

}  // namespace

Metrics readMetrics(const fs::path& path) {
  const std::string text = readWholeFile(path);
  Metrics metrics;
  forEachLine(path, text, [&](std::string_view line, bool) { addRecord(metrics, line); });
  return metrics;
}

MetricsFile::MetricsFile(const fs::path& path, Step resumeStep) : path_(path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    const std::string text = readWholeFile(path);
    const std::string kept = linesUpTo(path, text, resumeStep);
    if (kept != text) writeWholeFile(path, kept);
    evaluated_ = evaluationsAt(path, kept, resumeStep);
  }
  descriptor_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!descriptor_) throwFileError("open", path, errno);
}

MetricsFile::~MetricsFile() {
  try {
    flush();
  } catch (const IoError&) {  // NOLINT(bugprone-empty-catch): whoever wanted to know has flushed before
  }
}

void MetricsFile::add(const TrainPoint& point) {
  unwritten_ += lineOf("train", point);
}

void MetricsFile::add(const EvaluationPoint& point) {
  COHORT_CHECK(point.split == "test" || point.split == "validation",
               "a split without a name in metrics.jsonl");
  unwritten_ += lineOf(point.split, point);
}

void MetricsFile::flush() {
  while (!unwritten_.empty()) {
    const ssize_t written = ::write(descriptor_.get(), unwritten_.data(), unwritten_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throwFileError("write", path_, errno);
    if (written == 0) throwFileError("write", path_, ENOSPC);
    unwritten_.erase(0, static_cast<std::size_t>(written));
  }
}

}  // namespace cohort
