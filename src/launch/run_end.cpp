#include "launch/run_end.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string summaryIn(const fs::path& directory) {
  std::error_code unreadable;
  const fs::path file = directory / "summary.json";
  if (!fs::exists(file, unreadable)) return {};
  try {
    return readWholeFile(file);
  } catch (const IoError&) {
    return {};
  }
}

std::optional<RunEnd> endIn(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  const auto interrupted = json.find("interrupted");
  return RunEnd{.step = json["step"],
                .isInterrupted = interrupted != json.end() && *interrupted == Json(true)};
}

}  // namespace

std::optional<RunEnd> readRunEnd(const fs::path& jobDirectory) {
  return endIn(summaryIn(jobDirectory));
}

RunEndWatch::RunEndWatch(fs::path jobDirectory)
    : directory_(std::move(jobDirectory)), before_(summaryIn(directory_)) {}

std::optional<RunEnd> RunEndWatch::look() const {
  const std::string text = summaryIn(directory_);
  return text == before_ ? std::nullopt : endIn(text);
}

}  // namespace cohort
