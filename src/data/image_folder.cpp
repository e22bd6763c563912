#include "data/image_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

enum class Kind { Folder, Image, Other };

bool hasImageEnding(std::string_view name) {
  const auto endsWith = [&](std::string_view ending) {
    return name.size() > ending.size() &&
           std::equal(ending.rbegin(), ending.rend(), name.rbegin(), [](char small, char given) {
             return small == given || (small >= 'a' && small <= 'z' && small - 'a' + 'A' == given);
           });
  };
  return endsWith(".jpg") || endsWith(".jpeg") || endsWith(".png");
}

// Links count as what they lead to; what cannot be looked at is Other.
Kind kindOf(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code ignored;
  if (name.starts_with('.')) return Kind::Other;
  if (hasImageEnding(name) && entry.is_regular_file(ignored)) return Kind::Image;
  return entry.is_directory(ignored) ? Kind::Folder : Kind::Other;
}

// Whether `matches` is true for an entry of the folder; false where there is no such folder.
template <class Matches>
bool anyEntry(const fs::path& folder, const Matches& matches) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (matches(*at)) return true;
  }
  return false;
}

bool hasImages(const fs::path& folder) {
  return anyEntry(folder, [](const fs::directory_entry& entry) { return kindOf(entry) == Kind::Image; });
}

bool hasClassFolders(const fs::path& place) {
  return anyEntry(place, [](const fs::directory_entry& entry) {
    return kindOf(entry) == Kind::Folder && hasImages(entry.path());
  });
}

// Names of one kind, in bytewise order (that of the file system means nothing).
std::vector<std::string> namesIn(const fs::path& folder, Kind kind) {
  std::vector<std::string> names;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (kindOf(entry) == kind) names.push_back(entry.path().filename().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(fmt::format("Cannot list the folder {}: {}.", folder.string(), error.code().message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// ---- splits

constexpr std::array kSplits{Split::Train, Split::Validation, Split::Test};

std::optional<fs::path> folderOfSplit(const fs::path& place, Split split) {
  const auto existing = [&](const char* name) -> std::optional<fs::path> {
    std::error_code ignored;
    return fs::is_directory(place / name, ignored) ? std::optional(place / name) : std::nullopt;
  };
  switch (split) {
    case Split::Train:
      return existing("train");
    case Split::Test:
      return existing("test");
    case Split::Validation:
      break;
  }
  const auto whole = existing("validation");
  const auto brief = existing("val");
  if (whole && brief) {
    throw UsageError(
        fmt::format("{} and {} both exist, and both would be the validation split; remove or rename one.",
                    whole->string(), brief->string()));
  }
  return whole ? whole : brief;
}

std::vector<std::string> classesIn(const fs::path& folder) {
  std::vector<std::string> classes = namesIn(folder, Kind::Folder);
  if (classes.empty()) {
    throw UsageError(fmt::format(
        "{} has no class folders; put the images of each class into a folder named after it, as in {}.",
        folder.string(), (folder / "CLASS" / "1.jpg").string()));
  }
  return classes;
}

// A label must mean the same in all splits.
void requireSameClasses(const fs::path& place, const fs::path& folder,
                        const std::vector<std::string>& classes) {
  for (const Split split : kSplits) {
    const std::optional<fs::path> other = folderOfSplit(place, split);
    if (!other || *other == folder) continue;
    const std::vector<std::string> others = classesIn(*other);
    const auto [mine, its] = std::mismatch(classes.begin(), classes.end(), others.begin(), others.end());
    if (mine == classes.end() && its == others.end()) continue;
    const bool mineIsExtra = its == others.end() || (mine != classes.end() && *mine < *its);
    throw IoError(fmt::format("{} has the class '{}' but {} has not; the splits need the same class folders.",
                              (mineIsExtra ? folder : *other).string(), mineIsExtra ? *mine : *its,
                              (mineIsExtra ? *other : folder).string()));
  }
}

// ---- files

[[noreturn]] void failToRead(const std::string& path, int error) {
  throw IoError(fmt::format("{} cannot be read ({}); remove or replace it.", path, systemMessage(error)));
}

// Reads a file into the front of `buffer`, which only grows; returns the file's size.
std::size_t readFile(const std::string& path, std::string& buffer) {
  constexpr off_t kLargest = off_t{1} << 30;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) failToRead(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) failToRead(path, errno);
  if (status.st_size > kLargest) failToRead(path, EFBIG);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (buffer.size() < size) buffer.resize(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.get(), buffer.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failToRead(path, errno);
    if (got == 0) break;  // cut while it was read: the decoder will tell
    done += static_cast<std::size_t>(got);
  }
  return done;
}

class ImageFolder final : public ImageSet {
 public:
  ImageFolder(const fs::path& folder, std::vector<std::string> classes)
      : folder_(folder.string()), classes_(std::move(classes)) {
    for (std::size_t label = 0; label < classes_.size(); ++label) {
      const fs::path place = folder / classes_[label];
      const std::vector<std::string> files = namesIn(place, Kind::Image);
      if (files.empty()) {
        throw UsageError(fmt::format(
            "{} has no images (.jpg, .jpeg or .png); put some there or remove the folder.", place.string()));
      }
      for (const std::string& file : files) {
        labels_.push_back(static_cast<std::int32_t>(label));
        names_ += file;
        ends_.push_back(names_.size());
      }
    }
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  SampleShape shape() const override { return {.channels = 3, .height = 0, .width = 0}; }
  const std::vector<std::string>& classNames() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override { return labels_[static_cast<std::size_t>(index)]; }
  std::string nameOf(std::int64_t index) const override {
    return fmt::format("{}/{}", className(index), file(index));
  }
  bool orderedByClass() const override { return true; }

  void read(std::int64_t index, const ImageRequest& request, Image& image) const override {
    thread_local std::string path;
    thread_local std::string bytes;
    setPath(index, path);
    const std::size_t size = readFile(path, bytes);
    decodeImage(std::as_bytes(std::span(bytes)).first(size), path, request, image);
  }
  bool encoded(std::int64_t index, std::string& bytes) const override {
    std::string path;
    setPath(index, path);
    bytes.resize(readFile(path, bytes));
    return true;
  }

 private:
  const std::string& className(std::int64_t index) const {
    return classes_[static_cast<std::size_t>(label(index))];
  }
  std::string_view file(std::int64_t index) const {
    const auto at = static_cast<std::size_t>(index);
    const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
    return {names_.data() + begin, ends_[at] - begin};
  }
  void setPath(std::int64_t index, std::string& path) const {
    path.assign(folder_).append("/").append(className(index)).append("/").append(file(index));
  }

  std::string folder_;
  std::vector<std::string> classes_;
  std::vector<std::int32_t> labels_;
  // Millions of files: one string for all their names, and where each ends.
  std::string names_;
  std::vector<std::size_t> ends_;
};

}  // namespace

bool isImageFolder(const fs::path& place) {
  return hasClassFolders(place) || hasClassFolders(place / "train");
}

std::unique_ptr<ImageSet> openImageFolder(const fs::path& place, Split split) {
  std::error_code ignored;
  if (!fs::is_directory(place, ignored)) {
    throw UsageError(fmt::format("{} is not a folder; name one that has a folder of images for each class.",
                                 place.string()));
  }
  if (!hasClassFolders(place / "train")) {
    if (split != Split::Train) return nullptr;
    return std::make_unique<ImageFolder>(place, classesIn(place));
  }
  const std::optional<fs::path> folder = folderOfSplit(place, split);
  if (!folder) return nullptr;
  std::vector<std::string> classes = classesIn(*folder);
  requireSameClasses(place, *folder, classes);
  return std::make_unique<ImageFolder>(*folder, std::move(classes));
}

}  // namespace cohort
