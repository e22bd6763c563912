#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "train/safetensors.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kStep = "cohort.step";
constexpr std::string_view kConfig = "cohort.config";
constexpr std::string_view kRunHash = "cohort.hash.run";

// One arena of a checkpoint: the weights, or a slot.
struct Arena {
  std::string name;  // "weights" or the slot's
  std::span<float> values;

  std::string tensorName(const Parameter& parameter) const {
    return name == "weights" ? parameter.name : fmt::format("slot.{}.{}", name, parameter.name);
  }
  std::string hashKey() const { return "cohort.hash." + name; }
};

std::vector<Arena> arenasOf(const TrainingState& state) {
  std::vector<Arena> arenas{{"weights", {const_cast<float*>(state.weights.data()), state.weights.size()}}};
  for (const Shard::Slot& slot : state.shard->slots()) arenas.push_back({slot.name, slot.values});
  return arenas;
}

std::string runHash(const std::string& step, const std::string& config) {
  const std::string text = step + "\n" + config;
  return hashBytes(std::as_bytes(std::span(text)));
}

// Weights that are no longer numbers must not take the place of a checkpoint that one can go on from.
void requireFinite(std::span<const float> weights, Step step) {
  if (!std::ranges::all_of(weights, [](float weight) { return std::isfinite(weight); })) {
    throw UsageError(
        fmt::format("the weights are no longer finite after {} steps, so no checkpoint of them was written; "
                    "a smaller --lr would help",
                    step));
  }
}

void writeArenas(const fs::path& path, const ParameterLayout& layout, const std::vector<Arena>& arenas,
                 Step step, const std::string& config) {
  requireFinite(arenas.front().values, step);
  const std::string stepText = std::to_string(step);
  TensorMetadata metadata{{std::string(kStep), stepText},
                          {std::string(kConfig), config},
                          {std::string(kRunHash), runHash(stepText, config)}};
  std::vector<TensorToWrite> tensors;
  for (const Arena& arena : arenas) {
    metadata[arena.hashKey()] = hashBytes(std::as_bytes(arena.values));
    for (const Parameter& parameter : layout.parameters()) {
      tensors.push_back({arena.tensorName(parameter), parameter.shape,
                         arena.values.subspan(parameter.offset, parameter.size)});
    }
  }
  writeSafetensors(path, tensors, metadata);
}

const std::string& metadataOf(const SafetensorsReader& file, std::string_view key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    throw IoError(fmt::format("{} has no {} in its metadata: it is no checkpoint of cohort",
                              file.path().string(), key));
  }
  return found->second;
}

}  // namespace

std::string weightsHash(std::span<const float> weights) {
  return hashBytes(std::as_bytes(weights));
}

// Writes one snapshot at a time on a thread of its own.
class CheckpointStore::Writer {
 public:
  Writer() : thread_([this](const std::stop_token& stop) { serve(stop); }) {}

  ~Writer() {
    thread_.request_stop();
    wake_.notify_all();
  }

  void start(const TrainingState& state, fs::path path, std::string config,
             std::function<void()> afterwards) {
    wait();
    const std::vector<Arena> arenas = arenasOf(state);
    copies_.resize(arenas.size());
    snapshot_.clear();
    for (std::size_t i = 0; i < arenas.size(); ++i) {
      if (copies_[i].size() != arenas[i].values.size()) copies_[i] = FloatBuffer(arenas[i].values.size());
      std::memcpy(copies_[i].data(), arenas[i].values.data(), arenas[i].values.size_bytes());
      snapshot_.push_back({arenas[i].name, copies_[i].span()});
    }
    job_ = [this, &layout = state.layout, path = std::move(path), step = state.step, text = std::move(config),
            done = std::move(afterwards)] {
      writeArenas(path, layout, snapshot_, step, text);
      done();
    };
    const std::lock_guard lock(mutex_);
    busy_ = true;
    wake_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !busy_; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void serve(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, stop, [this] { return busy_; });
      if (!busy_) return;
      lock.unlock();
      try {
        job_();
      } catch (...) {
        failure_ = std::current_exception();
      }
      lock.lock();
      busy_ = false;
      wake_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool busy_ = false;
  std::function<void()> job_;
  std::exception_ptr failure_;
  std::vector<FloatBuffer> copies_;
  std::vector<Arena> snapshot_;
  std::jthread thread_;
};

CheckpointStore::CheckpointStore(fs::path directory, int keep)
    : directory_(std::move(directory)), keep_(keep) {}

CheckpointStore::~CheckpointStore() = default;

fs::path CheckpointStore::pathOf(Step step) const {
  return directory_ / fmt::format("{}{:010}{}", kPrefix, step, kSuffix);
}

std::vector<CheckpointFile> CheckpointStore::list() const {
  std::vector<CheckpointFile> files;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const char* begin = name.data() + kPrefix.size();
    const char* end = name.data() + name.size() - kSuffix.size();
    Step step = 0;
    const auto [stopped, error] = std::from_chars(begin, end, step);
    if (error == std::errc() && stopped == end) files.push_back({entry.path(), step});
  }
  std::ranges::sort(files, {}, &CheckpointFile::step);
  return files;
}

void CheckpointStore::removeOld(Step newest) const {
  std::vector<CheckpointFile> files = list();
  // A later one is damaged (the run would have gone on from it): it counts for nothing.
  std::erase_if(files, [newest](const CheckpointFile& file) { return file.step > newest; });
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep_) < files.size(); ++i) {
    std::error_code ignored;  // an old file that stays does no harm
    fs::remove(files[i].path, ignored);
  }
}

void CheckpointStore::save(const TrainingState& state, const std::string& config) {
  if (!writer_) writer_ = std::make_unique<Writer>();
  writer_->start(state, pathOf(state.step), config, [this, step = state.step] { removeOld(step); });
}

fs::path CheckpointStore::saveNow(const TrainingState& state, const std::string& config) {
  wait();
  fs::path path = pathOf(state.step);
  writeArenas(path, state.layout, arenasOf(state), state.step, config);
  removeOld(state.step);
  return path;
}

void CheckpointStore::wait() {
  if (writer_) writer_->wait();
}

std::optional<CheckpointFile> CheckpointStore::restoreLatest(
    TrainingState& state, const std::function<void(const std::string&)>& damaged) const {
  std::vector<CheckpointFile> files = list();
  for (; !files.empty(); files.pop_back()) {
    try {
      restoreCheckpoint(files.back().path, state);
      return files.back();
    } catch (const IoError& error) {
      damaged(error.what());
    }
  }
  return std::nullopt;
}

void restoreCheckpoint(const fs::path& path, TrainingState& state) {
  const SafetensorsReader file(path);
  const std::string& text = metadataOf(file, kStep);
  Step step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) {
    throw IoError(fmt::format("{} is damaged: its step is '{}'", path.string(), text));
  }
  if (runHash(text, metadataOf(file, kConfig)) != metadataOf(file, kRunHash)) {
    throw IoError(
        fmt::format("{} is damaged: its step and configuration do not fit their hash", path.string()));
  }
  for (const Arena& arena : arenasOf(state)) {
    for (const Parameter& parameter : state.layout.parameters()) {
      file.read(arena.tensorName(parameter), arena.values.subspan(parameter.offset, parameter.size));
    }
    if (hashBytes(std::as_bytes(arena.values)) != metadataOf(file, arena.hashKey())) {
      throw IoError(fmt::format("{} is damaged: its {} do not fit their hash", path.string(), arena.name));
    }
  }
  state.step = step;
}

void initializeFrom(const fs::path& path, TrainingState& state) {
  const SafetensorsReader file(path);
  for (const Parameter& parameter : state.layout.parameters()) {
    const StoredTensor* tensor = file.find(parameter.name);
    if (tensor == nullptr) {
      throw UsageError(
          fmt::format("--init-from {}: it has no tensor called {}", path.string(), parameter.name));
    }
    if (tensor->shape != parameter.shape) {
      throw UsageError(fmt::format("--init-from {}: {} has shape [{}] there, but [{}] in this network",
                                   path.string(), parameter.name, fmt::join(tensor->shape, ", "),
                                   fmt::join(parameter.shape, ", ")));
    }
    file.read(parameter.name, state.weights.span().subspan(parameter.offset, parameter.size));
  }
  // A moving average starts at the first weights.
  for (const Shard::Slot& slot : state.shard->slots()) {
    if (slot.name == "average") std::ranges::copy(state.weights.span(), slot.values.begin());
  }
}

}  // namespace cohort
