// A file of JSON objects, one a line, each with the "step" that it tells of: metrics.jsonl and receipt.jsonl.
//
// The file only ever grows at its end, so that others may follow it; a killed process leaves at most one torn line, the last
// one. Numbers that are not finite are written as null and read as NaN. Private to report.
#pragma once

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "base/batch.h"
#include "base/descriptor.h"

namespace cohort {

using StepJson = nlohmann::ordered_json;

// What is wrong with a line, without its place.
class NoRecord : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// NoRecord where the key is missing or its value of another type.
const StepJson& member(const StepJson& json, const char* key);
void load(const StepJson& json, const char* key, double& field);
void load(const StepJson& json, const char* key, std::int64_t& field);  // from 0 on
void load(const StepJson& json, const char* key, std::string& field);

// Every object of a file, in order. A last line that has no end is used where it is whole, and ignored where it is torn.
// IoError with the file and the line where anything else is no object, or `visit` throws NoRecord.
void forEachStepLine(const std::filesystem::path& path, const std::function<void(const StepJson&)>& visit);

// The one writer of a file. Used by one thread.
class StepLines {
 public:
  // Goes on after `resumeStep` (0: a new run): what a process before had written of later steps is taken away, in one move;
  // other lines stay as they are. The folder must exist.
  StepLines(std::filesystem::path path, Step resumeStep);
  ~StepLines();
  StepLines(const StepLines&) = delete;
  StepLines& operator=(const StepLines&) = delete;

  void add(const StepJson& json);
  // After an IoError the next call goes on where this one stopped: no line is torn or written twice.
  void flush();

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::string unwritten_;
};

}  // namespace cohort
