#include "report/event_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/host.h"
#include "base/record_file.h"
#include "report/event.pb.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";

double wallTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Seconds for a new file's name: now, or later where the folder has a file from then already (two processes within a
// second, a clock that was set back). Ten digits, as TensorBoard compares names as texts.
std::int64_t secondsForName(const fs::path& folder) {
  constexpr std::int64_t kMost = 9'999'999'998;
  std::int64_t seconds = static_cast<std::int64_t>(wallTime());
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t taken = 0;
    const char* digits = name.data() + kPrefix.size();
    const auto [end, error] = std::from_chars(digits, name.data() + name.size(), taken);
    if (error == std::errc() && end - digits == 10 && taken <= kMost) seconds = std::max(seconds, taken + 1);
  }
  return seconds;
}

void addScalar(events::Event& event, std::string tag, double value) {
  events::Summary::Value* added = event.mutable_summary()->add_value();
  added->set_tag(std::move(tag));
  added->set_simple_value(static_cast<float>(value));
}

}  // namespace

// One file, open for appending.
class EventFiles::File {
 public:
  File(const fs::path& folder, Step startStep) {
    try {
      fs::create_directories(folder);
      const std::int64_t seconds = secondsForName(folder);
      path_ = folder / fmt::format("{}{:010}.{}.{}", kPrefix, seconds, hostName(), ::getpid());
    } catch (const fs::filesystem_error& error) {
      throwFileError("use the folder", folder, error.code().value());
    }
    descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (!descriptor_) throwFileError("create", path_, errno);
    events::Event version;
    version.set_file_version("brain.Event:2");
    append(version);
    // TensorBoard keeps earlier points only where their step is smaller than the mark's. A point of `startStep` itself
    // was recorded before the checkpoint and is not recorded again. The first mark in a folder is never a restart, so
    // every process writes one.
    events::Event start;
    start.set_step(startStep + 1);
    start.mutable_session_log()->set_status(events::SessionLog::START);
    append(start);
  }

  void append(events::Event& event) {
    event.set_wall_time(wallTime());
    appendRecord(pending_, event.SerializeAsString());
  }

  void flush() {
    std::string_view rest = pending_;
    while (!rest.empty()) {
      const ssize_t written = ::write(descriptor_.get(), rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        const int error = written < 0 ? errno : ENOSPC;
        keepRest(rest.size());
        throwFileError("write", path_, error);
      }
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    size_ += static_cast<off_t>(pending_.size());
    pending_.clear();
  }

 private:
  // After a write that failed with `missing` bytes to go. A later flush begins anew behind whole records; where the half
  // of one cannot be cut off, it goes on inside.
  void keepRest(std::size_t missing) {
    if (::ftruncate(descriptor_.get(), size_) == 0) return;
    const std::size_t written = pending_.size() - missing;
    size_ += static_cast<off_t>(written);
    pending_.erase(0, written);
  }

  fs::path path_;
  Descriptor descriptor_;
  off_t size_ = 0;  // of the file, after the last flush
  std::string pending_;
};

EventFiles::EventFiles(fs::path directory, Step startStep)
    : directory_(std::move(directory)), startStep_(startStep) {
  file("train").flush();
}

EventFiles::~EventFiles() {
  try {
    EventFiles::flush();
  } catch (const IoError&) {
    // A destructor has nobody to tell. Who wants to know calls flush.
  }
}

EventFiles::File& EventFiles::file(const std::string& folder) {
  const auto known = files_.find(folder);
  if (known != files_.end()) return *known->second;
  return *files_.emplace(folder, std::make_unique<File>(directory_ / folder, startStep_)).first->second;
}

void EventFiles::add(const TrainPoint& point) {
  events::Event event;
  event.set_step(point.step);
  addScalar(event, "loss", point.loss);
  addScalar(event, "accuracy", point.accuracy);
  addScalar(event, "epoch", point.epoch);
  addScalar(event, "learning_rate", point.learningRate);
  addScalar(event, "images_per_second", point.imagesPerSecond);
  const TimeShares& s = point.seconds;
  const std::pair<const char*, double> parts[] = {
      {"time/data", s.data},     {"time/forward", s.forward},       {"time/backward", s.backward},
      {"time/update", s.update}, {"time/checkpoint", s.checkpoint}, {"time/evaluation", s.evaluation}};
  double sum = 0;
  for (const auto& [tag, seconds] : parts) sum += seconds;
  for (const auto& [tag, seconds] : parts) {
    if (sum > 0) addScalar(event, tag, seconds / sum);
  }
  file("train").append(event);
}

void EventFiles::add(const EvaluationPoint& point) {
  events::Event event;
  event.set_step(point.step);
  addScalar(event, "loss", point.loss);
  addScalar(event, "accuracy", point.accuracy);
  addScalar(event, "top5", point.top5);
  file(point.split).append(event);
}

void EventFiles::add(const ValuesPoint& point) {
  const Histogram histogram = histogramOf(point.values);
  if (histogram.count == 0) return;
  events::Event event;
  event.set_step(point.step);
  events::Summary::Value* added = event.mutable_summary()->add_value();
  added->set_tag(point.name);
  events::HistogramProto& proto = *added->mutable_histo();
  proto.set_min(histogram.min);
  proto.set_max(histogram.max);
  proto.set_num(histogram.count);
  proto.set_sum(histogram.sum);
  proto.set_sum_squares(histogram.sumSquares);
  proto.mutable_bucket_limit()->Add(histogram.limits.begin(), histogram.limits.end());
  proto.mutable_bucket()->Add(histogram.counts.begin(), histogram.counts.end());
  file("train").append(event);
}

void EventFiles::flush() {
  for (const auto& [folder, file] : files_) file->flush();
}

namespace {

std::optional<float> scalarOf(const events::Summary::Value& value) {
  if (value.has_simple_value()) return value.simple_value();
  if (!value.has_tensor() || value.tensor().dtype() != 1) return std::nullopt;
  const events::TensorProto& tensor = value.tensor();
  if (tensor.float_val_size() == 1) return tensor.float_val(0);
  float scalar = 0;
  if (tensor.tensor_content().size() != sizeof(scalar)) return std::nullopt;
  std::memcpy(&scalar, tensor.tensor_content().data(), sizeof(scalar));
  return scalar;
}

std::optional<Histogram> histogramOf(const events::Summary::Value& value) {
  if (!value.has_histo()) return std::nullopt;
  const events::HistogramProto& proto = value.histo();
  return Histogram{.min = proto.min(),
                   .max = proto.max(),
                   .count = proto.num(),
                   .sum = proto.sum(),
                   .sumSquares = proto.sum_squares(),
                   .limits = {proto.bucket_limit().begin(), proto.bucket_limit().end()},
                   .counts = {proto.bucket().begin(), proto.bucket().end()}};
}

EventRecord recordOf(const events::Event& event) {
  EventRecord record{.wallTime = event.wall_time(),
                     .step = event.step(),
                     .fileVersion = event.file_version(),
                     .sessionStart = event.session_log().status() == events::SessionLog::START,
                     .values = {}};
  for (const events::Summary::Value& value : event.summary().value()) {
    record.values.push_back({value.tag(), scalarOf(value), histogramOf(value)});
  }
  return record;
}

// `rest` is nothing, or the beginning of a record.
bool endsTooEarly(std::string_view rest) {
  constexpr std::size_t kLengthBytes = 8;
  constexpr std::size_t kChecksumBytes = 4;
  if (rest.size() < kLengthBytes + kChecksumBytes) return true;
  std::uint64_t length = 0;
  std::uint32_t checksum = 0;
  std::memcpy(&length, rest.data(), sizeof(length));
  std::memcpy(&checksum, rest.data() + kLengthBytes, sizeof(checksum));
  const std::uint32_t right = crc32c(std::as_bytes(std::span(rest.data(), kLengthBytes)));
  if (checksum != std::rotr(right, 15) + 0xa282ead8u) return false;  // damaged, which is another matter
  rest.remove_prefix(kLengthBytes + kChecksumBytes);
  return rest.size() < kChecksumBytes || length > rest.size() - kChecksumBytes;
}

}  // namespace

std::vector<EventRecord> readEvents(const fs::path& path) {
  static_assert(std::endian::native == std::endian::little,
                "lengths and tensors are read as they are stored");
  const std::string contents = readWholeFile(path);
  const std::string_view all = contents;
  RecordReader reader(all, path.string());
  std::vector<EventRecord> records;
  while (!endsTooEarly(all.substr(reader.offset()))) {
    const std::size_t at = reader.offset();
    const std::string_view data = *reader.next();
    events::Event event;
    if (data.size() > std::numeric_limits<int>::max() ||
        !event.ParseFromArray(data.data(), static_cast<int>(data.size()))) {
      throw IoError(
          fmt::format("{} is no event file: the record at byte {} is no event.", path.string(), at));
    }
    records.push_back(recordOf(event));
  }
  return records;
}

}  // namespace cohort
