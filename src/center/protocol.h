// What both ends must agree on. Private to center.
#pragma once

#include <cstdint>
#include <string_view>

namespace cohort {

inline constexpr std::uint32_t kProtocol = 1;
// The arena of a run that is no slot.
inline constexpr std::string_view kWeights = "weights";

}  // namespace cohort
