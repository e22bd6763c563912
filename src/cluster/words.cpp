#include "cluster/words.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace cohort {

std::optional<int> wholeNumber(std::string_view text) {
  // from_chars would take a minus sign too.
  const bool isDigits =
      !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  int number = 0;
  if (!isDigits || std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

std::string inQuotes(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string shown = "'";
  for (const char c : text.substr(0, kMost)) {
    const bool isPlain = c >= ' ' && c <= '~';
    shown += isPlain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return shown + (text.size() > kMost ? "...'" : "'");
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace cohort
