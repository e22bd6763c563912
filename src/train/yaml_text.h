// The one way in which YAML that people write comes in: configurations and studies.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cohort {

inline constexpr std::size_t kLargestYaml = 1U << 20;  // bytes

// Afterwards, YAML::Load gives the text's one document; maps in it may still hold themselves, by aliases. `what` names what
// it ought to be ("configuration"). UsageError where the text is larger than that, is not UTF-8 text, is not YAML or has a
// second document. Thread-safe.
void requireYamlDocument(std::string_view text, const std::string& source, const std::string& what);

}  // namespace cohort
