#include "launch/worker_status.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <limits>
#include <optional>
#include <tuple>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/host.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kFileBytes = 4096;
constexpr std::size_t kLongestText = 800;
constexpr int kLooks = 3;  // until a file that is just written is taken for another's

constexpr std::string_view kWorker = "worker-";
constexpr std::string_view kServer = "server-";
constexpr std::string_view kEnd = ".json";

std::string jsonOf(const WorkerStatus& s, std::size_t longest) {
  const Json json{{"host", s.host.substr(0, longest)},
                  {"process", s.process},
                  {"step", s.step},
                  {"doing", s.doing.substr(0, longest)},
                  {"doing_s", s.doingSeconds},
                  {"waits_for", s.waitsFor.substr(0, longest)},
                  {"waits_for_worker", s.waitsForAnother},
                  {"may_rest", s.mayRest},
                  {"still_s", s.stillSeconds},
                  {"written", s.written},
                  {"failure", s.failure.substr(0, longest)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string textOf(const WorkerStatus& status) {
  std::size_t longest = kLongestText;
  std::string text = jsonOf(status, longest);
  // Escapes take room.
  while (text.size() >= kFileBytes) text = jsonOf(status, longest /= 2);
  text.resize(kFileBytes - 1, ' ');
  return text + '\n';
}

std::optional<WorkerStatus> parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    return WorkerStatus{.host = json.at("host"),
                        .process = json.at("process"),
                        .step = json.at("step"),
                        .doing = json.at("doing"),
                        .doingSeconds = json.at("doing_s"),
                        .waitsFor = json.at("waits_for"),
                        .waitsForAnother = json.at("waits_for_worker"),
                        .mayRest = json.at("may_rest"),
                        .stillSeconds = json.at("still_s"),
                        .written = json.at("written"),
                        .failure = json.at("failure")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::optional<WorkerStatus> read(const fs::path& path) {
  const std::string file = path.filename().string();
  const bool isServer = file.starts_with(kServer);
  if ((!isServer && !file.starts_with(kWorker)) || !file.ends_with(kEnd)) return std::nullopt;
  for (int look = 0; look < kLooks; ++look) {
    try {
      std::optional<WorkerStatus> status = parse(readWholeFile(path, kFileBytes));
      if (!status) continue;
      status->isServer = isServer;
      status->name = file.substr(kWorker.size(), file.size() - kWorker.size() - kEnd.size());
      return status;
    } catch (const IoError&) {  // it has just gone
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// Numbers by their value, before other names.
std::tuple<bool, int, std::string> orderOf(const WorkerStatus& status) {
  int number = std::numeric_limits<int>::max();
  std::from_chars(status.name.data(), status.name.data() + status.name.size(), number);
  return {status.isServer, number, status.name};
}

}  // namespace

fs::path statusFolder(const fs::path& jobDirectory) {
  return jobDirectory / "status";
}

std::string statusFileName(bool isServer, std::string_view name) {
  return fmt::format("{}{}{}", isServer ? kServer : kWorker, name, kEnd);
}

bool writeStatus(const fs::path& jobDirectory, const WorkerStatus& status) {
  const fs::path path = statusFolder(jobDirectory) / statusFileName(status.isServer, status.name);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC;
  Descriptor file(::open(path.c_str(), kFlags, 0666));
  if (!file) {
    std::error_code ignored;
    fs::create_directory(statusFolder(jobDirectory), ignored);
    file = Descriptor(::open(path.c_str(), kFlags, 0666));
  }
  const std::string text = textOf(status);
  return file && ::pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

void removeStatus(const fs::path& jobDirectory, const WorkerStatus& status) noexcept {
  std::error_code ignored;
  fs::remove(statusFolder(jobDirectory) / statusFileName(status.isServer, status.name), ignored);
  fs::remove(statusFolder(jobDirectory), ignored);
}

bool seemsGone(const WorkerStatus& status) {
  return status.host == hostName() && ::kill(status.process, 0) != 0 && errno == ESRCH;
}

void removeDeadStatuses(const fs::path& jobDirectory) {
  for (const WorkerStatus& status : readStatuses(jobDirectory)) {
    if (seemsGone(status)) removeStatus(jobDirectory, status);
  }
}

std::vector<WorkerStatus> readStatuses(const fs::path& jobDirectory) {
  std::vector<WorkerStatus> all;
  std::error_code unreadable;
  // Without exceptions: what others take away meanwhile is no error.
  fs::directory_iterator entry(statusFolder(jobDirectory), unreadable);
  for (; !unreadable && entry != fs::directory_iterator(); entry.increment(unreadable)) {
    if (std::optional<WorkerStatus> status = read(entry->path())) all.push_back(*std::move(status));
  }
  std::ranges::sort(all, {}, orderOf);
  return all;
}

}  // namespace cohort
