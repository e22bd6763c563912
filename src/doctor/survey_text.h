// A survey for people: what is good in a few lines, and every finding in one.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"
#include "doctor/findings.h"

namespace cohort {

// Lines without the last one's end. Between few hosts every link is shown, between more the slowest.
std::string toText(const Survey& survey);

// "wrong: SENTENCE" and "poor: SENTENCE", one a line.
std::string toText(const std::vector<Finding>& findings);

}  // namespace cohort
