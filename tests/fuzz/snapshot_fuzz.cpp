// Snapshots of a server.
#include <algorithm>
#include <cstring>
#include <vector>

#include <google/protobuf/stubs/logging.h>

#include "center/setup_wire.h"
#include "center/snapshot.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace cohort;

constexpr std::size_t kBefore = 12;  // the name of the format, and the head's length

// Makes the head fit its length, the number of floats and the hash, where it can be read.
std::size_t repair(std::span<std::uint8_t> room, std::size_t size) {
  if (size < kBefore) return size;
  std::uint32_t length = 0;
  std::memcpy(&length, room.data() + 8, sizeof(length));
  length = static_cast<std::uint32_t>(std::min<std::size_t>(length, size - kBefore));
  const std::vector<std::uint8_t> rest(room.begin() + static_cast<std::ptrdiff_t>(kBefore + length),
                                       room.begin() + static_cast<std::ptrdiff_t>(size));
  Snapshot snapshot;
  if (!snapshot.head.ParseFromArray(room.data() + kBefore, static_cast<int>(length))) return size;
  std::size_t arenas = 1;
  try {
    arenas += slotNames(fromWire(snapshot.head.setup()).optimizer).size();
  } catch (const UsageError&) {
    return size;
  }
  const std::size_t each = rest.size() / sizeof(float) / arenas;
  if (each == 0) return size;
  for (std::size_t i = 0; i < arenas; ++i) {
    FloatBuffer& arena = snapshot.arenas.emplace_back(each);
    std::memcpy(arena.data(), rest.data() + i * each * sizeof(float), each * sizeof(float));
  }
  snapshot.head.set_floats(each * arenas);
  snapshot.head.set_hash(hashOf(snapshot));
  const std::string head = snapshot.head.SerializeAsString();
  const std::size_t floats = each * arenas * sizeof(float);
  if (kBefore + head.size() + floats > room.size()) return size;
  length = static_cast<std::uint32_t>(head.size());
  std::memcpy(room.data() + 8, &length, sizeof(length));
  std::memcpy(room.data() + kBefore, head.data(), head.size());
  std::memcpy(room.data() + kBefore + head.size(), rest.data(), floats);
  return kBefore + head.size() + floats;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer kQuiet;
  const InputFile file({data, size});
  isAccepted(file.path(), [&] {
    const std::optional<Snapshot> found = readSnapshot(file.path());
    if (!found) failFuzzing("A file that is there is not found.");
    std::size_t floats = 0;
    for (const FloatBuffer& arena : found->arenas) floats += arena.size();
    if (floats != found->head.floats() || floats * sizeof(float) > size)
      failFuzzing("A snapshot has floats that are not in its file.");
    try {
      wire::Snapshot again;
      setApplied(again, appliedOf(found->head));
      if (again.applied_above_size() != found->head.applied_above_size())
        failFuzzing("Steps that were applied are lost.");
    } catch (const UsageError&) {
      return;  // they make no sense
    }
  });
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize,
                                    unsigned seed) {
  size = LLVMFuzzerMutate(data, size, maxSize);
  return seed % 8 == 0 ? size : repair({data, maxSize}, size);
}
