#include "train/yaml_text.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "train/run_config.h"

namespace cohort {
namespace {

bool isText(std::string_view text) {
  const auto isControl = [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
  };
  return isUtf8(text) && std::ranges::none_of(text, isControl);
}

// Where documents begin; everything else passes by.
class DocumentStarts : public YAML::EventHandler {
 public:
  YAML::Mark last;

  void OnDocumentStart(const YAML::Mark& mark) override { last = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

std::string placeIn(const std::string& source, const YAML::Mark& mark) {
  return yamlPlace(source, mark.line, mark.column);
}

}  // namespace

void requireYamlDocument(std::string_view text, const std::string& source, const std::string& what) {
  if (text.size() > kLargestYaml) {
    throw UsageError(fmt::format("{} is larger than 1 MiB, which no {} is", source, what));
  }
  if (!isText(text)) {
    throw UsageError(fmt::format("{} is no text: a {} is a YAML file in UTF-8", source, what));
  }
  try {
    // YAML::Load reads the first document and passes over the rest, and YAML::LoadAll does not end at every damaged text.
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    DocumentStarts starts;
    parser.HandleNextDocument(starts);
    if (parser.HandleNextDocument(starts)) {
      throw UsageError(
          fmt::format("{}here begins a second document; a {} is one", placeIn(source, starts.last), what));
    }
    YAML::Load(std::string(text));
  } catch (const YAML::Exception& error) {
    throw UsageError(fmt::format("{}this is not YAML: {}", placeIn(source, error.mark), error.msg));
  }
}

std::string readYamlFile(const std::filesystem::path& path, const std::string& what) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw UsageError(fmt::format("there is no {} file {}", what, path.string()));
  }
  if (std::filesystem::is_directory(status)) {
    throw UsageError(fmt::format("{} is a folder, not a {} file", path.string(), what));
  }
  try {
    return readWholeFile(path, kLargestYaml + 1);  // a file may say any size, or be a pipe
  } catch (const IoError& failure) {
    throw UsageError(fmt::format("the {} file cannot be read: {}", what, failure.what()));
  }
}

std::string yamlPlace(const std::string& source, int line, int column) {
  if (line < 0) return source + ": ";
  return fmt::format("{}:{}:{}: ", source, line + 1, column + 1);
}

}  // namespace cohort
