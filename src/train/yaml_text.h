// The one way in which YAML that people write comes in: configurations, strategies and studies.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace cohort {

inline constexpr std::size_t kLargestYaml = 1U << 20;  // bytes

// Afterwards, YAML::Load gives the text's one document; maps in it may still hold themselves, by aliases. `what` names what
// it ought to be ("configuration"). UsageError where the text is larger than that, is not UTF-8 text, is not YAML or has a
// second document. Thread-safe.
void requireYamlDocument(std::string_view text, const std::string& source, const std::string& what);

// The file's text, or as much of it as is enough to refuse it; UsageError where there is none.
std::string readYamlFile(const std::filesystem::path& path, const std::string& what);

// "SOURCE:LINE:COLUMN: ", of a YAML::Mark, which counts from 0; "SOURCE: " where it is none (-1).
std::string yamlPlace(const std::string& source, int line, int column);

}  // namespace cohort
