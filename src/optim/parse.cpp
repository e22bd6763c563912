#include "optim/parse.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort::parse {
namespace {

template <typename Number>
bool readAll(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> items;
  for (;;) {
    const std::size_t at = text.find(separator);
    items.push_back(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return items;
    text.remove_prefix(at + 1);
  }
}

double number(std::string_view text, std::string_view what) {
  double value = 0;
  if (!readAll(trimmed(text), value) || !std::isfinite(value)) {
    throw UsageError(fmt::format("{} must be a number, but it is '{}'.", what, text));
  }
  return value;
}

double numberFromZero(std::string_view text, std::string_view what) {
  const double value = number(text, what);
  if (value < 0) throw UsageError(fmt::format("{} must not be negative, but it is {}.", what, text));
  return value;
}

std::int64_t positiveCount(std::string_view text, std::string_view what) {
  std::int64_t value = 0;
  if (!readAll(trimmed(text), value) || value < 1) {
    throw UsageError(fmt::format("{} must be a whole number of at least 1, but it is '{}'.", what, text));
  }
  return value;
}

}  // namespace cohort::parse
