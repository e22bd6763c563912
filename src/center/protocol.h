// What both ends must agree on. Private to center.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace cohort {

inline constexpr std::uint32_t kProtocol = 4;
// A worker said what makes no sense.
class Nonsense : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void require(bool makesSense, const char* otherwise) {
  if (!makesSense) throw Nonsense(otherwise);
}

// The arena of a run that is no slot.
inline constexpr std::string_view kWeights = "weights";
// What a worker finds in its mail: asked for alone, and there may be nothing.
inline constexpr std::string_view kMail = "mail";

}  // namespace cohort
