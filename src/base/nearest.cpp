#include "base/nearest.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

// Levenshtein's distance, row by row.
std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearestWord(std::string_view word, std::span<const std::string> known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = editDistance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

void requireWord(std::string_view kind, const std::string& word, const std::vector<std::string>& known) {
  if (std::ranges::find(known, word) != known.end()) return;
  const std::string nearest = nearestWord(word, known);
  throw UsageError(fmt::format("there is no {} called '{}'{}; there are {}", kind, word,
                               nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest),
                               fmt::join(known, ", ")));
}

}  // namespace cohort
