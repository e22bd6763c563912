// The one way in which YAML that people write comes in: configurations and studies.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <yaml-cpp/yaml.h>

namespace cohort {

inline constexpr std::size_t kLargestYaml = 1U << 20;  // bytes

// "SOURCE:LINE:COLUMN: ", to begin a sentence about a place in a text.
std::string placeIn(const std::string& source, const YAML::Mark& mark);

// The document in a text; `what` names what it ought to be ("configuration"). UsageError where the text has over 1 MiB, is
// not UTF-8 text, is not YAML or has a second document. Maps may still hold themselves, by aliases. Thread-safe.
YAML::Node yamlDocument(std::string_view text, const std::string& source, const std::string& what);

}  // namespace cohort
