#include "cluster/number_list.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/words.h"

namespace cohort {
namespace {

constexpr int kMost = 65'536;

struct Stretch {
  int first = 0;
  int last = 0;
};

Stretch parseStretch(std::string_view text, const std::string& source) {
  const std::size_t dash = text.find('-');
  const std::optional<int> first = wholeNumber(text.substr(0, dash));
  const std::optional<int> last = dash == std::string_view::npos ? first : wholeNumber(text.substr(dash + 1));
  if (!first || !last) {
    throw UsageError(
        fmt::format("{} takes numbers and ranges such as 0-3,8, not {}", source, inQuotes(text)));
  }
  if (*last < *first) {
    throw UsageError(
        fmt::format("{}: the range {} runs backwards; write {}-{}", source, text, *last, *first));
  }
  return {*first, *last};
}

}  // namespace

std::vector<int> parseNumberList(std::string_view text, const std::string& source) {
  std::vector<int> numbers;
  std::set<int> seen;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const Stretch stretch = parseStretch(text.substr(begin, comma - begin), source);
    begin = comma + 1;
    if (stretch.last - stretch.first >= kMost - static_cast<int>(numbers.size()))
      throw UsageError(fmt::format("{} has more than {} numbers; give fewer", source, kMost));
    for (int i = 0; i <= stretch.last - stretch.first; ++i) {
      numbers.push_back(stretch.first + i);
      if (!seen.insert(numbers.back()).second)
        throw UsageError(fmt::format("{} has {} twice; leave one out", source, numbers.back()));
    }
  }
  return numbers;
}

std::string numberListText(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] - 1 == numbers[end - 1]) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[begin]);
    if (end - begin > 1) text += fmt::format("-{}", numbers[end - 1]);
    begin = end;
  }
  return text;
}

}  // namespace cohort
