#include "center/snapshot.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/file_part.h"
#include "base/hash.h"
#include "base/parameter.h"
#include "center/setup_wire.h"

namespace cohort {
namespace {

constexpr std::string_view kMagic = "cohortC1";
constexpr std::uint32_t kLargestSnapshotHead = 64 << 20;

[[noreturn]] void refuse(const std::filesystem::path& path, const char* why) {
  throw IoError(fmt::format("{} is damaged: {}; move it away to start again from the run's checkpoint",
                            path.string(), why));
}

}  // namespace

std::string hashOf(const Snapshot& snapshot) {
  wire::Snapshot head = snapshot.head;
  head.clear_hash();
  const std::string headBytes = head.SerializeAsString();
  std::string all = hashBytes(std::as_bytes(std::span(headBytes)));
  for (const FloatBuffer& arena : snapshot.arenas) all += hashBytes(std::as_bytes(arena.span()));
  return hashBytes(std::as_bytes(std::span(all)));
}

void setApplied(wire::Snapshot& head, const StepSet& steps) {
  head.set_applied_below(steps.below());
  head.clear_applied_above();
  for (const auto& [begin, end] : steps.stretches()) {
    head.add_applied_above(begin);
    head.add_applied_above(end);
  }
}

StepSet appliedOf(const wire::Snapshot& head) {
  StepSet steps(head.applied_below());
  const auto& bounds = head.applied_above();
  bool makesSense = bounds.size() % 2 == 0;
  for (int i = 0; makesSense && i < bounds.size(); i += 2) {
    makesSense =
        bounds[i] > (i == 0 ? head.applied_below() : bounds[i - 1]) && steps.insert(bounds[i], bounds[i + 1]);
  }
  if (!makesSense) throw UsageError("the snapshot's steps make no sense; start without it");
  return steps;
}

void writeSnapshot(const std::filesystem::path& path, Snapshot snapshot) {
  std::uint64_t floats = 0;
  for (const FloatBuffer& arena : snapshot.arenas) floats += arena.size();
  snapshot.head.set_floats(floats);
  snapshot.head.set_hash(hashOf(snapshot));
  const std::string head = snapshot.head.SerializeAsString();
  if (head.size() > kLargestSnapshotHead) {
    throw IoError(fmt::format("{} is not written: {} bytes before its floats are more than can be read again",
                              path.string(), head.size()));
  }
  const auto length = static_cast<std::uint32_t>(head.size());
  AtomicFile file(path);
  file.write(kMagic);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(head);
  for (const FloatBuffer& arena : snapshot.arenas) file.write(std::as_bytes(std::as_const(arena).span()));
  file.commit();
}

std::optional<Snapshot> readSnapshot(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) throwFileError("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throwFileError("read", path, errno);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::string magic(kMagic.size(), '\0');
  std::uint32_t length = 0;
  const std::uint64_t begin = magic.size() + sizeof(length);
  if (size < begin) refuse(path, "it is too short");
  readFileAt(file, path, 0, std::as_writable_bytes(std::span(magic)));
  readFileAt(file, path, magic.size(), std::as_writable_bytes(std::span(&length, 1)));
  if (magic != kMagic) refuse(path, "it is no snapshot of a server");
  if (length > kLargestSnapshotHead || length > size - begin) refuse(path, "its head is too long");
  std::string head(length, '\0');
  readFileAt(file, path, begin, std::as_writable_bytes(std::span(head)));
  Snapshot snapshot;
  if (!snapshot.head.ParseFromString(head)) refuse(path, "its head cannot be read");
  const std::uint64_t floats = (size - begin - length) / sizeof(float);
  if ((size - begin - length) % sizeof(float) != 0 || floats != snapshot.head.floats())
    refuse(path, "it is too short");
  std::size_t slice = 0;
  std::size_t slots = 0;
  try {
    const CenterSetup setup = fromWire(snapshot.head.setup());
    if (snapshot.head.servers() < 1 || snapshot.head.server() >= snapshot.head.servers())
      refuse(path, "it belongs to no server");
    slice = sliceOfServer(ParameterLayout(setup.parameters).size(), static_cast<int>(snapshot.head.server()),
                          static_cast<int>(snapshot.head.servers()))
                .size();
    slots = slotNames(setup.optimizer).size();
  } catch (const UsageError&) {
    refuse(path, "its run makes no sense");
  }
  if (floats != slice * (1 + slots)) refuse(path, "it has another number of floats");
  std::uint64_t at = begin + length;
  for (std::size_t i = 0; i <= slots; ++i) {
    FloatBuffer& arena = snapshot.arenas.emplace_back(slice);
    readFileAt(file, path, at, std::as_writable_bytes(arena.span()));
    at += slice * sizeof(float);
  }
  if (hashOf(snapshot) != snapshot.head.hash()) refuse(path, "its contents do not fit their hash");
  return snapshot;
}

}  // namespace cohort
