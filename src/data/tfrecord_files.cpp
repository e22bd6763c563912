#include "data/tfrecord_files.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/record_file.h"
#include "data/tfrecord.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

// "train-00003-of-00010": number 3 of the 10 shards of "train".
struct Shard {
  std::string base;
  std::string number;
  std::string count;  // as many digits as the number has
};

std::optional<Shard> parseShard(std::string_view name) {
  constexpr std::size_t kMostDigits = 9;
  constexpr std::string_view kOf = "-of-";
  const std::size_t of = name.rfind(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  const std::string_view count = name.substr(of + kOf.size());
  const std::size_t digits = count.size();
  if (digits == 0 || digits > kMostDigits || of < digits + 1) return std::nullopt;
  const std::string_view number = name.substr(of - digits, digits);
  if (name[of - digits - 1] != '-' || !std::ranges::all_of(count, isDigit) ||
      !std::ranges::all_of(number, isDigit)) {
    return std::nullopt;
  }
  return Shard{.base = std::string(name.substr(0, of - digits - 1)),
               .number = std::string(number),
               .count = std::string(count)};
}

bool isTfrecordName(std::string_view name) {
  if (name.starts_with('.')) return false;
  return name.ends_with(".tfrecord") || name.ends_with(".tfrecords") || parseShard(name).has_value();
}

Split splitOf(std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  // "val" covers "validation".
  if (begins("val") || begins("dev")) return Split::Validation;
  if (begins("eval") || begins("test")) return Split::Test;
  return Split::Train;
}

// All TFRecord files at the place, in the order of their names; never throws for what the place is.
std::vector<fs::path> findFiles(const fs::path& place) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(place, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (isTfrecordName(entry->path().filename().native()) && entry->is_regular_file(ignored)) {
      found.push_back(entry->path());
    }
  }
  std::ranges::sort(found, {}, [](const fs::path& path) { return path.filename(); });
  return found;
}

// A part of a set would be trained on as if it were the whole.
void requireAllShards(const fs::path& folder, const std::vector<fs::path>& files) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>>
      numbers;  // by base and count, sorted
  for (const fs::path& file : files) {
    if (const auto shard = parseShard(file.filename().native())) {
      numbers[{shard->base, shard->count}].push_back(shard->number);
    }
  }
  for (const auto& [key, present] : numbers) {
    const auto& [base, count] = key;
    const std::uint64_t expected = std::stoull(count);
    for (std::uint64_t i = 0; i < expected; ++i) {
      const std::string number = fmt::format("{:0{}}", i, count.size());
      if (i < present.size() && present[i] == number) continue;
      throw UsageError(
          fmt::format("The shard {}-{}-of-{} is not in {}; put it there, or rename the shards that are.",
                      base, number, count, folder.string()));
    }
  }
}

}  // namespace

bool isTfrecords(const fs::path& place) {
  std::error_code ignored;
  if (fs::is_regular_file(place, ignored)) return isTfrecordName(place.filename().native());
  return !findFiles(place).empty();
}

std::vector<fs::path> tfrecordFiles(const fs::path& place, Split split) {
  std::error_code ignored;
  if (fs::is_regular_file(place, ignored)) {
    return split == Split::Train ? std::vector{place} : std::vector<fs::path>{};
  }
  std::vector<fs::path> files = findFiles(place);
  if (files.empty()) {
    throw UsageError(fmt::format(
        "There are no *.tfrecord or *.tfrecords files in {}; name the folder that holds them, or one file.",
        place.string()));
  }
  std::erase_if(files, [&](const fs::path& file) { return splitOf(file.filename().string()) != split; });
  requireAllShards(place, files);
  return files;
}

void requireNotCompressed(const fs::path& path, std::string_view contents) {
  if (!contents.starts_with("\x1f\x8b\x08")) return;
  // The first record's length may look like this too; then its checksum is right.
  try {
    RecordReader(contents, path.string()).next();
  } catch (const IoError&) {
    throw UsageError(fmt::format(
        "{} is compressed with gzip as a whole; unpack it first (gunzip), for its images are found by their "
        "places.",
        path.string()));
  }
}

}  // namespace cohort
