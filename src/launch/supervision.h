// What every supervisor of workers is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

struct Supervision {
  std::vector<std::string> command;  // a worker's program and arguments
  int workers = 2;
  int maxRestarts = 3;  // in a row, between which nothing was reached
  double stallSeconds = 60;
  std::optional<std::uint64_t> chaos{};  // kill and freeze workers, as this seed has it
};

}  // namespace cohort
