// What is wrong with the ground that a run would stand on, and what to do about it: judgements of facts, pure functions.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"

namespace cohort {

struct Finding {
  enum class Weight {
    Poor,   // the run would be slow, or its records hard to read
    Wrong,  // it would fail, or be another run
  };
  Weight weight = Weight::Poor;
  std::string sentence;  // one, with what to do

  bool operator==(const Finding&) const = default;
};

// Of everything that the survey holds; the wrong ones first, and hosts in their order.
std::vector<Finding> findingsOf(const Survey& survey);

}  // namespace cohort
