#include "center/moment.h"

#include <charconv>

#include <fmt/format.h>

namespace cohort {
namespace {

// Takes a number from the text's front.
template <class Number>
bool take(std::string_view& text, Number& number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char letter) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string toText(const CenterMoment& moment) {
  if (!moment.isKnown()) return "";
  std::string text = fmt::format("{:x}", moment.opening);
  for (const ServerVersion& server : moment.servers)
    text += fmt::format(" {:x}@{}", server.life, server.version);
  return text;
}

std::optional<CenterMoment> momentFromText(std::string_view text) {
  constexpr int kLives = 16;
  constexpr int kVersions = 10;
  CenterMoment moment;
  if (!take(text, moment.opening, kLives) || text.empty()) return std::nullopt;
  while (!text.empty()) {
    ServerVersion& server = moment.servers.emplace_back();
    if (!take(text, ' ') || !take(text, server.life, kLives) || !take(text, '@') ||
        !take(text, server.version, kVersions)) {
      return std::nullopt;
    }
  }
  return moment;
}

}  // namespace cohort
