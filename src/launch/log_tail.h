// What is added to a log file, line by line. Private to launch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "report/console.h"

namespace cohort {

class LogTail {
 public:
  // From its present end on; the file may not be there yet.
  explicit LogTail(std::filesystem::path file);
  // The whole lines that have come since the last call.
  void show(Screen& screen);

 private:
  std::filesystem::path file_;
  std::uintmax_t at_ = 0;
  std::string unfinished_;
};

// The last line with something on it of what stands behind `begin`, or of its last few thousand bytes; empty where there is none.
std::string lastLine(const std::filesystem::path& file, std::uintmax_t begin);

}  // namespace cohort
