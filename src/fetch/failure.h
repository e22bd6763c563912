// The two failures that the parts of this module tell each other. Private to fetch.
#pragma once

#include <stdexcept>

#include "base/error.h"

namespace cohort {

// A source cannot be had now: another one may be tried. The text is a clause without a full stop.
class Unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What came is not what it should be.
class Damaged : public IoError {
 public:
  using IoError::IoError;
};

}  // namespace cohort
