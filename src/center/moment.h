// Which weights: servers count their updates each for itself, and one that died goes on from its snapshot, so that its later updates
// are there twice. A *life* is one process of a server; a version is one of its life.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/batch.h"

namespace cohort {

struct ServerVersion {
  std::uint64_t life = 0;
  Step version = 0;

  bool operator==(const ServerVersion&) const = default;
};

// A version of each server, in their order.
struct CenterMoment {
  std::uint64_t opening = 0;  // of the run that they belong to (see CenterSetup)
  std::vector<ServerVersion> servers{};

  bool isKnown() const { return !servers.empty(); }
  bool operator==(const CenterMoment&) const = default;
};

// "OPENING LIFE@VERSION LIFE@VERSION …", versions in decimal; empty where nothing is known.
std::string toText(const CenterMoment& moment);
// Nothing where the text is no such.
std::optional<CenterMoment> momentFromText(std::string_view text);

}  // namespace cohort
