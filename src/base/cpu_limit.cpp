#include "base/cpu_limit.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

namespace cohort {
namespace {

namespace fs = std::filesystem;

// Where groups of a kind are to be seen: `shown` is the group at `place`.
struct Mount {
  bool isSecond = false;  // version 2
  fs::path shown;
  fs::path place;
};

std::vector<std::string> wordsOf(const std::string& line, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
  return words;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// From lines such as "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu".
std::vector<Mount> mountsOf(const fs::path& file) {
  constexpr std::size_t kShown = 3;
  constexpr std::size_t kPlace = 4;
  std::vector<Mount> mounts;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = wordsOf(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (words.end() - dash < 4 || dash - words.begin() <= static_cast<std::ptrdiff_t>(kPlace)) continue;
    const std::string& kind = dash[1];
    const bool isSecond = kind == "cgroup2";
    if (isSecond || (kind == "cgroup" && contains(wordsOf(dash[3], ','), "cpu"))) {
      mounts.push_back({isSecond, words[kShown], words[kPlace]});
    }
  }
  return mounts;
}

// This process's group of a kind, from lines such as "1:cpu,cpuacct:/docker/1f" and "0::/user.slice".
std::optional<fs::path> groupOf(const fs::path& file, bool isSecond) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string kinds = line.substr(first + 1, second - first - 1);
    if (isSecond ? kinds.empty() : contains(wordsOf(kinds, ','), "cpu")) return line.substr(second + 1);
  }
  return std::nullopt;
}

std::optional<double> numberIn(const fs::path& file) {
  std::ifstream stream(file);
  double number = 0;
  if (stream >> number) return number;
  return std::nullopt;
}

// What one folder says; nothing where it limits nothing.
std::optional<double> cpusOf(const fs::path& folder, bool isSecond) {
  double quota = 0;
  double period = 0;
  if (isSecond) {
    std::ifstream stream(folder / "cpu.max");  // "max 100000" is no number
    if (!(stream >> quota >> period)) return std::nullopt;
  } else {
    quota = numberIn(folder / "cpu.cfs_quota_us").value_or(-1);
    period = numberIn(folder / "cpu.cfs_period_us").value_or(0);
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// The folder of a group; the mount's own where the group is not to be seen there, as in a container.
fs::path folderOf(const Mount& mount, const fs::path& group) {
  const fs::path below = group.lexically_relative(mount.shown);
  if (below.empty() || below == "." || *below.begin() == "..") return mount.place;
  return (mount.place / below).lexically_normal();
}

}  // namespace

std::optional<CpuLimit> cpuLimit(const fs::path& root) {
  std::optional<CpuLimit> strictest;
  for (const Mount& mount : mountsOf(root / "proc/self/mountinfo")) {
    const auto group = groupOf(root / "proc/self/cgroup", mount.isSecond);
    if (!group) continue;
    fs::path folder = folderOf(mount, *group);
    while (true) {
      const auto cpus = cpusOf(root / folder.relative_path(), mount.isSecond);
      if (cpus && (!strictest || *cpus < strictest->cpus)) strictest = {*cpus, folder.string()};
      if (folder == mount.place || folder == folder.parent_path()) break;
      folder = folder.parent_path();
    }
  }
  return strictest;
}

int lanesWithin(const CpuLimit& limit, int sharers) {
  constexpr double kMost = 1e6;
  return std::max(1, static_cast<int>(std::floor(std::min(limit.cpus, kMost) / sharers)));
}

}  // namespace cohort
