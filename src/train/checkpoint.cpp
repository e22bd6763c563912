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

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "base/error.h"
#include "base/file_part.h"
#include "base/hash.h"
#include "train/safetensors.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kStep = "cohort.step";
constexpr std::string_view kConfig = "cohort.config";
constexpr std::string_view kCenter = "cohort.center";
constexpr std::string_view kRunHash = "cohort.hash.run";
constexpr std::string_view kHashPrefix = "cohort.hash.";

// The checkpoints' own channel: they are written while steps are computed.
constexpr int kChannel = 1;

// A stretch of an arena that this worker has.
struct Part {
  std::size_t offset = 0;  // in the arena
  std::span<float> values;
};

// One arena of a checkpoint: the weights, or a slot.
struct Arena {
  std::string name;  // "weights" or the slot's
  std::vector<Part> parts;

  std::string tensorName(const Parameter& parameter) const {
    return name == "weights" ? parameter.name : fmt::format("slot.{}.{}", name, parameter.name);
  }
  std::string hashKey() const { return std::string(kHashPrefix) + name; }
};

Part partOf(std::span<float> arena, const ArenaRange& range) {
  return {range.begin, arena.subspan(range.begin, range.size())};
}

// Of rules with weights of their own: what is common by slices, and every worker's slots, of which this one has its own.
std::vector<Arena> arenasWithOwnSlots(TrainingState& state) {
  const TrainingState::OwnSlots& own = *state.ownSlots;
  std::vector<Arena> arenas{{"weights", {}}};
  if (state.outer.size() > 0) arenas.push_back({"outer_momentum", {}});
  for (const ArenaRange& slice : own.slices) {
    arenas.front().parts.push_back(partOf(state.weights.span(), slice));
    if (state.outer.size() > 0) arenas.back().parts.push_back(partOf(state.outer.span(), slice));
  }
  for (int rank = 0; rank < own.size; ++rank) {
    for (const Shard::Slot& slot : state.shards.front().slots()) {
      arenas.push_back({fmt::format("{}@{}", slot.name, rank), {}});
      if (rank == own.rank) arenas.back().parts.push_back({0, slot.values});
    }
  }
  return arenas;
}

// What the file has, with the parts that this worker owns.
std::vector<Arena> arenasOf(TrainingState& state) {
  if (state.ownSlots) return arenasWithOwnSlots(state);
  std::vector<Arena> arenas{{"weights", {}}};
  for (const std::string& slot : state.slots) arenas.push_back({slot, {}});
  for (Shard& shard : state.shards) {
    arenas.front().parts.push_back(partOf(state.weights.span(), {shard.begin(), shard.end()}));
    std::size_t next = 1;
    for (const Shard::Slot& slot : shard.slots()) {
      arenas[next++].parts.push_back({shard.begin(), slot.values});
    }
  }
  return arenas;
}

std::string runHash(const std::string& step, const std::string& config, const std::string& center) {
  const std::string text = step + "\n" + config + (center.empty() ? "" : "\n" + center);
  return hashBytes(std::as_bytes(std::span(text)));
}

// Weights that are no longer numbers must not take the place of a checkpoint that one can go on from.
void requireFinite(const Arena& weights, Step step) {
  for (const Part& part : weights.parts) {
    if (!std::ranges::all_of(part.values, [](float weight) { return std::isfinite(weight); })) {
      throw UsageError(fmt::format(
          "the weights are no longer finite after {} steps, so no checkpoint of them was written; "
          "a smaller --lr would help",
          step));
    }
  }
}

// Does its part on every worker; where that fails on one, it fails on all, with the same sentence.
void together(const Channel& workers, const std::string& what, const std::function<void()>& work) {
  constexpr char kUsage = 'u';
  constexpr char kIo = 'i';
  std::string failure;
  try {
    work();
  } catch (const UsageError& error) {
    failure = kUsage + std::string(error.what());
  } catch (const IoError& error) {
    failure = kIo + std::string(error.what());
  }
  const std::vector<std::string> all = workers.gather(failure, what);
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  const std::string verdict = workers.broadcast(first == all.end() ? "" : *first, what);
  if (verdict.empty()) return;
  if (verdict.front() == kUsage) throw UsageError(verdict.substr(1));
  throw IoError(verdict.substr(1));
}

// One checkpoint on its way to the disk; every worker has one of these for it.
class CheckpointWrite {
 public:
  CheckpointWrite(const Channel& workers, const ParameterLayout& layout, const std::vector<Arena>& arenas,
                  Step step, const std::string& config, const CenterMoment& moment)
      : workers_(workers), layout_(layout), arenas_(arenas), step_(step) {
    const std::string stepText = std::to_string(step);
    const std::string center = toText(moment);
    metadata_ = {{std::string(kStep), stepText},
                 {std::string(kConfig), config},
                 {std::string(kRunHash), runHash(stepText, config, center)}};
    if (!center.empty()) metadata_[std::string(kCenter)] = center;
    for (const Arena& arena : arenas) {
      metadata_[arena.hashKey()] = hashOfChunks({});  // as long as the real one
      for (const Parameter& parameter : layout.parameters()) {
        tensors_.push_back({arena.tensorName(parameter), parameter.shape});
      }
    }
    payload_ = safetensorsHeader(tensors_, metadata_).size();
  }

  void write(const fs::path& path) {
    std::optional<AtomicFile> file;
    together(workers_, "the begin of a checkpoint", [&] {
      requireFinite(arenas_.front(), step_);
      if (isFirst()) file.emplace(path);
    });
    const fs::path temporary =
        workers_.broadcast(isFirst() ? file->temporary().string() : "", "a checkpoint's name");
    together(workers_, "writing a checkpoint", [&] { writeParts(temporary); });
    std::string own;
    together(workers_, "reading a checkpoint back", [&] { own = hashShare(temporary); });
    takeHashes(workers_.gather(own, "the hashes of a checkpoint"));
    together(workers_, "the end of a checkpoint", [&] {
      if (!isFirst()) return;
      const std::string header = safetensorsHeader(tensors_, metadata_);
      COHORT_CHECK(header.size() == payload_, "the header has the length that was left for it");
      file->writeAt(0, std::as_bytes(std::span(header)));
      crashPoint("checkpoint-header");
      file->commit();
    });
  }

 private:
  bool isFirst() const { return workers_.workers().isFirst(); }
  std::uint64_t arenaBytes() const { return layout_.size() * sizeof(float); }
  std::uint64_t arenaAt(std::size_t arena) const { return payload_ + arena * arenaBytes(); }
  std::size_t chunksPerArena() const { return (arenaBytes() + kHashChunkBytes - 1) / kHashChunkBytes; }

  void writeParts(const fs::path& temporary) {
    FilePart file(temporary);
    for (std::size_t i = 0; i < arenas_.size(); ++i) {
      for (const Part& part : arenas_[i].parts) {
        file.writeAt(arenaAt(i) + part.offset * sizeof(float), std::as_bytes(part.values));
      }
      crashPoint("checkpoint-part");
    }
    file.sync();
    crashPoint("checkpoint-parts");
  }

  // The hashes of every size()-th chunk, one after the other.
  std::string hashShare(const fs::path& temporary) const {
    const FilePart file(temporary);
    std::string hashes;
    std::vector<std::byte> chunk(std::min<std::uint64_t>(kHashChunkBytes, arenaBytes()));
    for (std::size_t c = static_cast<std::size_t>(workers_.workers().rank());
         c < arenas_.size() * chunksPerArena(); c += static_cast<std::size_t>(workers_.workers().size())) {
      const std::uint64_t begin = c % chunksPerArena() * kHashChunkBytes;
      const std::span<std::byte> bytes =
          std::span(chunk).first(std::min<std::uint64_t>(kHashChunkBytes, arenaBytes() - begin));
      file.readAt(arenaAt(c / chunksPerArena()) + begin, bytes);
      const ChunkHash hash = hashChunk(bytes);
      hashes.append(reinterpret_cast<const char*>(hash.data()), hash.size());
    }
    return hashes;
  }

  // On the first worker, from all.
  void takeHashes(const std::vector<std::string>& shares) {
    if (!isFirst()) return;
    std::vector<ChunkHash> chunks(arenas_.size() * chunksPerArena());
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const std::string& share = shares[c % shares.size()];
      COHORT_CHECK(share.size() >= (c / shares.size() + 1) * sizeof(ChunkHash),
                   "every worker hashed its share");
      std::memcpy(chunks[c].data(), share.data() + c / shares.size() * sizeof(ChunkHash), sizeof(ChunkHash));
    }
    for (std::size_t i = 0; i < arenas_.size(); ++i) {
      metadata_[arenas_[i].hashKey()] =
          hashOfChunks(std::span(chunks).subspan(i * chunksPerArena(), chunksPerArena()));
    }
  }

  const Channel& workers_;
  const ParameterLayout& layout_;
  const std::vector<Arena>& arenas_;
  Step step_;
  TensorMetadata metadata_;
  std::vector<TensorShape> tensors_;
  std::uint64_t payload_ = 0;
};

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

  // Copies what the worker owns, and has `write` write the copy.
  void start(TrainingState& state, std::function<void(const std::vector<Arena>&)> write) {
    wait();
    snapshot_ = arenasOf(state);
    std::size_t next = 0;
    for (Arena& arena : snapshot_) {
      for (Part& part : arena.parts) {
        if (next == copies_.size()) copies_.emplace_back(part.values.size());
        std::ranges::copy(part.values, copies_[next].data());
        part.values = copies_[next++].span();
      }
    }
    job_ = [this, write = std::move(write)] { write(snapshot_); };
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

CheckpointStore::CheckpointStore(fs::path directory, int keep, Communicator& workers)
    : directory_(std::move(directory)), keep_(keep), workers_(workers, kChannel) {}

CheckpointStore::~CheckpointStore() = default;

fs::path CheckpointStore::pathOf(Step step) const {
  return directory_ / fmt::format("{}{:010}{}", kPrefix, step, kSuffix);
}

std::vector<CheckpointFile> listCheckpoints(const fs::path& directory) {
  std::vector<CheckpointFile> files;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, none)) {
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
  if (!workers_.workers().isFirst()) return;
  std::vector<CheckpointFile> files = list();
  // A later one is damaged (the run would have gone on from it): it counts for nothing.
  std::erase_if(files, [newest](const CheckpointFile& file) { return file.step > newest; });
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep_) < files.size(); ++i) {
    std::error_code ignored;  // an old file that stays does no harm
    fs::remove(files[i].path, ignored);
  }
}

void CheckpointStore::save(TrainingState& state, const std::string& config) {
  if (!writer_) writer_ = std::make_unique<Writer>();
  writer_->start(state, [this, &layout = state.layout, step = state.step, config,
                         moment = state.moment](const std::vector<Arena>& snapshot) {
    const Clock::time_point start = Clock::now();
    CheckpointWrite(workers_, layout, snapshot, step, config, moment).write(pathOf(step));
    seconds_ = secondsSince(start);
    removeOld(step);
  });
}

fs::path CheckpointStore::saveNow(TrainingState& state, const std::string& config) {
  wait();
  fs::path path = pathOf(state.step);
  const Clock::time_point start = Clock::now();
  CheckpointWrite(workers_, state.layout, arenasOf(state), state.step, config, state.moment).write(path);
  seconds_ = secondsSince(start);
  removeOld(state.step);
  return path;
}

void CheckpointStore::wait() {
  if (writer_) writer_->wait();
}

std::optional<double> CheckpointStore::takeSeconds() {
  const double seconds = seconds_.exchange(-1);
  return seconds < 0 ? std::nullopt : std::optional(seconds);
}

std::uint64_t checkpointBytes(TrainingState& state) {
  return arenasOf(state).size() * state.layout.size() * sizeof(float);
}

std::optional<CheckpointFile> CheckpointStore::restoreLatest(
    TrainingState& state, const std::function<void(const std::string&)>& damaged) const {
  constexpr const char* kWhat = "the name of the checkpoint to go on from";
  if (!workers_.workers().isFirst()) {
    const fs::path path = workers_.broadcast("", kWhat);
    if (path.empty()) return std::nullopt;
    restoreCheckpoint(path, state);
    return CheckpointFile{path, state.step};
  }
  std::vector<CheckpointFile> files = list();
  for (; !files.empty(); files.pop_back()) {
    try {
      restoreCheckpoint(files.back().path, state);
      break;
    } catch (const IoError& error) {
      damaged(error.what());
    }
  }
  workers_.broadcast(files.empty() ? "" : files.back().path.string(), kWhat);
  return files.empty() ? std::nullopt : std::optional(files.back());
}

namespace {

// Fills `values` with the arena's floats from `offset` on.
void readArena(const SafetensorsReader& file, const ParameterLayout& layout, const Arena& arena,
               std::size_t offset, std::span<float> values) {
  for (const Parameter& parameter : layout.parameters()) {
    const std::size_t begin = std::max(parameter.offset, offset);
    const std::size_t end = std::min(parameter.offset + parameter.size, offset + values.size());
    if (begin >= end) continue;
    file.readPart(arena.tensorName(parameter), parameter.size, begin - parameter.offset,
                  values.subspan(begin - offset, end - begin));
  }
}

// Where a file of rules with own slots has another number of workers, this worker goes on with one of theirs.
std::string storedName(const SafetensorsReader& file, const std::string& name) {
  const std::size_t at = name.find('@');
  if (at == std::string::npos) return name;
  const auto has = [&](int rank) {
    return file.metadata().contains(fmt::format("cohort.hash.{}@{}", name.substr(0, at), rank));
  };
  int stored = 0;
  while (has(stored)) ++stored;
  return fmt::format("{}@{}", name.substr(0, at), std::stoi(name.substr(at + 1)) % std::max(1, stored));
}

// Against its hash in the metadata.
void requireWhole(const SafetensorsReader& file, const ParameterLayout& layout, const Arena& arena) {
  constexpr std::size_t kChunkFloats = kHashChunkBytes / sizeof(float);
  std::vector<ChunkHash> chunks;
  std::vector<float> chunk(std::min(kChunkFloats, layout.size()));
  for (std::size_t at = 0; at < layout.size(); at += kChunkFloats) {
    const std::span<float> values = std::span(chunk).first(std::min(kChunkFloats, layout.size() - at));
    readArena(file, layout, arena, at, values);
    chunks.push_back(hashChunk(std::as_bytes(values)));
  }
  if (hashOfChunks(chunks) != metadataOf(file, arena.hashKey())) {
    throw IoError(
        fmt::format("{} is damaged: its {} do not fit their hash", file.path().string(), arena.name));
  }
}

std::string centerOf(const SafetensorsReader& file) {
  const auto found = file.metadata().find(kCenter);
  return found == file.metadata().end() ? "" : found->second;
}

// The configuration, if it is the one that was written with the step.
const std::string& wholeConfigOf(const SafetensorsReader& file) {
  const std::string& config = metadataOf(file, kConfig);
  if (runHash(metadataOf(file, kStep), config, centerOf(file)) != metadataOf(file, kRunHash)) {
    throw IoError(
        fmt::format("{} is damaged: its step and configuration do not fit their hash", file.path().string()));
  }
  return config;
}

}  // namespace

std::string configOfCheckpoint(const fs::path& path) {
  return headOfCheckpoint(path).config;
}

void restoreCheckpoint(const fs::path& path, TrainingState& state) {
  const SafetensorsReader file(path);
  const std::string& text = metadataOf(file, kStep);
  Step step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) {
    throw IoError(fmt::format("{} is damaged: its step is '{}'", path.string(), text));
  }
  wholeConfigOf(file);
  std::vector<Arena> arenas = arenasOf(state);
  arenas.front().parts = {{0, state.weights.span()}};  // all workers have all weights
  if (state.ownSlots && state.outer.size() > 0) arenas[1].parts = {{0, state.outer.span()}};
  for (Arena& arena : arenas) {
    arena.name = storedName(file, arena.name);
    metadataOf(file, arena.hashKey());
  }
  // All that is there, whoever needs it: workers agree on what is whole.
  for (const auto& [key, hash] : file.metadata()) {
    if (key.starts_with(kHashPrefix) && key != kRunHash)
      requireWhole(file, state.layout, {key.substr(kHashPrefix.size()), {}});
  }
  for (const Arena& arena : arenas) {
    for (const Part& part : arena.parts) readArena(file, state.layout, arena, part.offset, part.values);
  }
  state.step = step;
  state.moment = momentFromText(centerOf(file)).value_or(CenterMoment{});
}

CheckpointHead headOfCheckpoint(const fs::path& path) {
  const SafetensorsReader file(path);
  CheckpointHead head{.config = wholeConfigOf(file),
                      .moment = momentFromText(centerOf(file)).value_or(CenterMoment{})};
  for (const auto& [key, hash] : file.metadata()) {
    if (key.starts_with(kHashPrefix) && key != kRunHash) head.hashes[key.substr(kHashPrefix.size())] = hash;
  }
  return head;
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
  for (Shard& shard : state.shards) {
    for (const Shard::Slot& slot : shard.slots()) {
      if (slot.name == "average")
        std::ranges::copy(state.weights.span().subspan(shard.begin(), slot.values.size()),
                          slot.values.begin());
    }
  }
}

}  // namespace cohort
