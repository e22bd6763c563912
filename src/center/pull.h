// Floats that a worker has asked one server for. Private to center.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/parameter.h"
#include "base/trainable.h"
#include "center/coverage.h"
#include "center/link.h"
#include "center/protocol.h"

namespace cohort {

struct Pull {
  wire::Envelope request{};
  std::vector<std::span<float>> arenas{};  // to fill: the server's slice of each
  std::vector<Coverage> coverage{};        // of each
  Step version = 0;                        // of what has come
  double part = 0;                         // of mail: how much it counts
  bool isDone = false;

  std::uint64_t ticket() const { return request.pull().ticket(); }
  bool isOfMail() const { return request.pull().arenas(0) == kMail; }
  // It is asked for anew.
  void forget() { coverage.assign(arenas.size(), {}); }
  // False where the server sends what was not asked for.
  bool take(const wire::Floats& floats, const Payload& payload, const ArenaRange& slice) {
    if (isOfMail() && floats.part() == 0 && payload.size() == 0) {
      version = floats.version();
      return isDone = true;
    }
    const std::size_t count = payload.size() / sizeof(float);
    const bool fits = payload.size() % sizeof(float) == 0 && floats.arena() < arenas.size() &&
                      floats.part() >= 0 && floats.part() <= 1 && floats.offset() >= slice.begin &&
                      floats.offset() <= slice.end && count <= slice.end - floats.offset();
    if (!fits || !coverage[floats.arena()].add({floats.offset(), floats.offset() + count})) return false;
    payload.copyTo(std::as_writable_bytes(arenas[floats.arena()].subspan(floats.offset(), count)));
    version = floats.version();
    part = floats.part();
    std::size_t covered = 0;
    for (const Coverage& one : coverage) covered += one.covered();
    isDone = covered == slice.size() * arenas.size();
    return true;
  }
};

}  // namespace cohort
