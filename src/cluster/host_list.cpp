#include "cluster/host_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/words.h"

namespace cohort {
namespace {

// Larger numbers do not fit into 64 bits; no host is numbered so.
constexpr std::size_t kMostDigits = 18;

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

bool isHostCharacter(char c) {
  return c > ' ' && c <= '~' && c != ',' && c != '[' && c != ']';
}

// Of digits alone, at most kMostDigits.
std::uint64_t valueOf(std::string_view digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string padded(std::uint64_t value, std::size_t width) {
  return fmt::format("{:0{}}", value, width);
}

struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;  // of the first number, as it was written
};

// A stretch of text, and the numbers in the bracket behind it; only a name's last part may have none.
struct Part {
  std::string_view text;
  std::vector<Range> ranges{};
};

class Expansion {
 public:
  Expansion(std::string_view list, const std::string& source) : list_(list), source_(source) {}

  std::vector<std::string> hosts() {
    if (list_.empty()) return {};
    for (;;) {
      addName(readName());
      if (atEnd()) return std::move(hosts_);
      ++at_;  // the comma
    }
  }

 private:
  bool atEnd() const { return at_ == list_.size(); }
  char here() const { return list_[at_]; }

  [[noreturn]] void fail(std::size_t place, const std::string& what) const {
    throw UsageError(
        fmt::format("{} {} is no host list: {} at character {}", source_, inQuotes(list_), what, place + 1));
  }

  std::vector<Part> readName() {
    const std::size_t begin = at_;
    std::vector<Part> parts;
    for (;;) {
      parts.push_back({.text = readText()});
      if (atEnd() || here() == ',') break;
      if (here() == ']') fail(at_, "']' without a '['");
      parts.back().ranges = readRanges();
    }
    if (parts.size() == 1 && parts[0].text.empty()) fail(begin, "a name is missing");
    return parts;
  }

  std::string_view readText() {
    const std::size_t begin = at_;
    while (!atEnd() && isHostCharacter(here())) ++at_;
    if (!atEnd() && here() != ',' && here() != '[' && here() != ']')
      fail(at_,
           fmt::format("no name may have a {}", here() == ' ' ? "blank, as" : "character such as the one"));
    return list_.substr(begin, at_ - begin);
  }

  std::vector<Range> readRanges() {
    const std::size_t bracket = at_;
    std::vector<Range> ranges;
    do {
      ++at_;  // the bracket, or a comma
      ranges.push_back(readRange());
      if (atEnd()) fail(bracket, "'[' without a ']'");
    } while (here() == ',');
    if (here() != ']') fail(at_, "something else than a number, '-', ',' or ']' is in a bracket");
    ++at_;
    return ranges;
  }

  Range readRange() {
    const std::size_t begin = at_;
    const std::string_view first = readNumber();
    Range range{.first = valueOf(first), .last = valueOf(first), .width = first.size()};
    if (atEnd() || here() != '-') return range;
    ++at_;
    range.last = valueOf(readNumber());
    if (range.last < range.first) {
      fail(begin, fmt::format("the range {} runs backwards", list_.substr(begin, at_ - begin)));
    }
    if (range.last - range.first >= kMostHosts) failTooMany();
    return range;
  }

  std::string_view readNumber() {
    const std::size_t begin = at_;
    while (!atEnd() && isDigit(here())) ++at_;
    if (at_ == begin) fail(at_, "a number is missing");
    if (at_ - begin > kMostDigits) fail(begin, fmt::format("a number has more than {} digits", kMostDigits));
    return list_.substr(begin, at_ - begin);
  }

  [[noreturn]] void failTooMany() const {
    throw UsageError(
        fmt::format("{} {} names more than {} hosts; give fewer", source_, inQuotes(list_), kMostHosts));
  }

  // Part by part, each multiplying what those before it have made; never more, or longer, than is allowed.
  void addName(const std::vector<Part>& parts) {
    std::vector<std::string> names = {""};
    for (const Part& part : parts) {
      requireLength(part.text);
      for (std::string& name : names) name += part.text;
      if (!part.ranges.empty()) names = withNumbers(names, part.ranges);
      std::ranges::for_each(names, [this](const std::string& name) { requireLength(name); });
    }
    if (hosts_.size() + names.size() > kMostHosts) failTooMany();
    std::ranges::move(names, std::back_inserter(hosts_));
  }

  std::vector<std::string> withNumbers(const std::vector<std::string>& names,
                                       const std::vector<Range>& ranges) const {
    std::size_t numbers = 0;
    for (const Range& range : ranges) numbers += range.last - range.first + 1;
    if (numbers * names.size() > kMostHosts) failTooMany();
    std::vector<std::string> longer;
    longer.reserve(numbers * names.size());
    for (const std::string& name : names) {
      for (const Range& range : ranges) {
        for (std::uint64_t number = range.first; number <= range.last; ++number)
          longer.push_back(name + padded(number, range.width));
      }
    }
    return longer;
  }

  void requireLength(std::string_view name) const {
    if (name.size() <= kLongestHost) return;
    throw UsageError(fmt::format("{} {} has a host's name of more than {} bytes: {}", source_,
                                 inQuotes(list_), kLongestHost, inQuotes(name)));
  }

  std::string_view list_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::vector<std::string> hosts_;
};

// A host's name around its last number.
struct NumberedName {
  std::string_view before;
  std::string_view digits;  // empty: none, or one that is too large for a range
  std::string_view after;
};

NumberedName numberedName(std::string_view host) {
  std::size_t end = host.size();
  while (end > 0 && !isDigit(host[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && isDigit(host[begin - 1])) --begin;
  if (end == begin || end - begin > kMostDigits) return {.before = host, .digits = "", .after = ""};
  return {
      .before = host.substr(0, begin), .digits = host.substr(begin, end - begin), .after = host.substr(end)};
}

// Hosts in a row whose names differ in their last number only.
class Group {
 public:
  explicit Group(const NumberedName& first) : name_(first), ranges_{startAt(first)} {}

  // Whether it took the host.
  bool take(const NumberedName& next) {
    const bool isNumbered = !name_.digits.empty() && !next.digits.empty();
    if (!isNumbered || next.before != name_.before || next.after != name_.after) return false;
    Range& range = ranges_.back();
    if (next.digits == padded(range.last + 1, range.width)) {
      ++range.last;
    } else {
      ranges_.push_back(startAt(next));
    }
    return true;
  }

  std::string text() const {
    if (name_.digits.empty()) return std::string(name_.before);
    std::string numbers;
    for (const Range& range : ranges_) {
      numbers += (numbers.empty() ? "" : ",") + padded(range.first, range.width);
      if (range.last > range.first) numbers += "-" + padded(range.last, range.width);
    }
    const bool isOne = ranges_.size() == 1 && ranges_[0].first == ranges_[0].last;
    return fmt::format("{}{}{}{}{}", name_.before, isOne ? "" : "[", numbers, isOne ? "" : "]", name_.after);
  }

 private:
  static Range startAt(const NumberedName& name) {
    const std::uint64_t value = valueOf(name.digits);
    return {.first = value, .last = value, .width = name.digits.size()};
  }

  NumberedName name_;
  std::vector<Range> ranges_;
};

}  // namespace

std::vector<std::string> expandHostList(std::string_view text, const std::string& source) {
  return Expansion(text, source).hosts();
}

std::string compressHostList(const std::vector<std::string>& hosts) {
  std::vector<Group> groups;
  for (const std::string& host : hosts) {
    if (host.empty() || host.size() > kLongestHost || !std::ranges::all_of(host, isHostCharacter)) {
      throw UsageError(fmt::format(
          "{} cannot stand in a list of hosts: it is empty, too long, or has a comma, a bracket or a "
          "blank",
          inQuotes(host)));
    }
    const NumberedName name = numberedName(host);
    if (groups.empty() || !groups.back().take(name)) groups.emplace_back(name);
  }
  std::string text;
  for (const Group& group : groups) text += (text.empty() ? "" : ",") + group.text();
  return text;
}

std::vector<std::string_view> splitHostList(std::string_view text) {
  std::vector<std::string_view> names;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[') ++depth;
    if (text[at] == ']') --depth;
    if (text[at] != ',' || depth > 0) continue;
    names.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  names.push_back(text.substr(begin));
  return names;
}

}  // namespace cohort
