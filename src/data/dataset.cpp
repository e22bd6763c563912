#include "data/dataset.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"

namespace cohort {

void DatasetRegistry::add(DatasetFormat format) {
  if (std::ranges::find(formats_, format.name, &DatasetFormat::name) != formats_.end()) {
    throw UsageError(fmt::format("there is a dataset called '{}' already; choose another name", format.name));
  }
  formats_.push_back(std::move(format));
}

const DatasetFormat& DatasetRegistry::find(std::string_view name) const {
  const auto found = std::ranges::find(formats_, name, &DatasetFormat::name);
  if (found != formats_.end()) return *found;
  const std::string nearest = nearestWord(std::string(name), names());
  throw UsageError(fmt::format("There is no dataset called '{}'{}; the datasets are {}.", name,
                               nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest),
                               fmt::join(names(), ", ")));
}

std::vector<std::string> DatasetRegistry::names() const {
  std::vector<std::string> names;
  for (const DatasetFormat& format : formats_) names.push_back(format.name);
  return names;
}

}  // namespace cohort
