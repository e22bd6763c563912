#include "report/step_lines.h"

#include <cerrno>
#include <limits>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

StepJson objectOf(std::string_view line) {
  StepJson json = StepJson::parse(line, nullptr, false);
  if (!json.is_object()) throw NoRecord("it is no JSON object");
  return json;
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

}  // namespace

const StepJson& member(const StepJson& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) throw NoRecord(fmt::format("\"{}\" is missing", key));
  return *found;
}

void load(const StepJson& json, const char* key, double& field) {
  const StepJson& value = member(json, key);
  if (!value.is_number() && !value.is_null()) throw NoRecord(fmt::format("\"{}\" is no number", key));
  field = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

void load(const StepJson& json, const char* key, std::int64_t& field) {
  const StepJson& value = member(json, key);
  // Larger ones than int64_t's would come out negative.
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
    throw NoRecord(fmt::format("\"{}\" is no whole number from 0 on", key));
  }
  field = value.get<std::int64_t>();
}

void load(const StepJson& json, const char* key, std::string& field) {
  const StepJson& value = member(json, key);
  if (!value.is_string()) throw NoRecord(fmt::format("\"{}\" is no text", key));
  field = value.get<std::string>();
}

void forEachStepLine(const fs::path& path, const std::function<void(const StepJson&)>& visit) {
  const std::string text = readWholeFile(path);
  forEachLine(path, text, [&](std::string_view line, bool) { visit(objectOf(line)); });
}

StepLines::StepLines(fs::path path, Step resumeStep) : path_(std::move(path)) {
  std::error_code ignored;
  if (fs::is_regular_file(path_, ignored)) {
    const std::string text = readWholeFile(path_);
    const std::string kept = linesUpTo(path_, text, resumeStep);
    if (kept != text) writeWholeFile(path_, kept);
  }
  descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!descriptor_) throwFileError("open", path_, errno);
}

StepLines::~StepLines() {
  try {
    flush();
  } catch (const IoError&) {  // NOLINT(bugprone-empty-catch): whoever wanted to know has flushed before
  }
}

void StepLines::add(const StepJson& json) {
  unwritten_ += json.dump() + "\n";
}

void StepLines::flush() {
  while (!unwritten_.empty()) {
    const ssize_t written = ::write(descriptor_.get(), unwritten_.data(), unwritten_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throwFileError("write", path_, errno);
    if (written == 0) throwFileError("write", path_, ENOSPC);
    unwritten_.erase(0, static_cast<std::size_t>(written));
  }
}

}  // namespace cohort
