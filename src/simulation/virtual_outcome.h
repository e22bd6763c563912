// What the workers of a run in virtual time did, and how long it took: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/batch.h"
#include "simulation/virtual_time.h"

namespace cohort {

struct VirtualOutcome {
  VirtualTime time = 0;
  std::uint64_t bytes = 0;                 // over cables and inside of hosts
  std::map<Step, std::int64_t> staleness;  // updates by the number of others between their weights and them
  std::int64_t dropped = 0;                // works that came too late to count
  std::int64_t lost = 0;                   // works that died with their worker
  std::int64_t failures = 0;
  std::uint64_t events = 0;

  // Workers of hosts of one name, stragglers apart.
  struct Class {
    std::string name;
    int workers = 0;
    std::int64_t works = 0;     // finished
    VirtualTime computing = 0;  // all of them together, as in the following
    VirtualTime waiting = 0;    // for others, with nothing to compute
    VirtualTime away = 0;       // failed
  };
  std::vector<Class> classes;
};

}  // namespace cohort
