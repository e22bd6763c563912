#include "cluster/hosts_file.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "cluster/address.h"
#include "cluster/host_list.h"
#include "cluster/number_list.h"
#include "cluster/words.h"

namespace cohort {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kCores = "cores=";

std::vector<std::string_view> wordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t begin = line.find_first_not_of(kBlanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

// As --job-name has them.
std::string jobNameOf(Role role) {
  switch (role) {
    case Role::Server:
      return "ps";
    case Role::Worker:
      return "worker";
    case Role::Evaluator:
      return "evaluator";
  }
  return "";
}

Role parseRole(std::string_view word, const std::string& where) {
  for (const Role role : {Role::Server, Role::Worker, Role::Evaluator}) {
    if (word == jobNameOf(role)) return role;
  }
  throw UsageError(
      fmt::format("{} has the role {}; roles are ps, worker and evaluator", where, inQuotes(word)));
}

// Where processes of the others' lists listen, or an evaluator's host.
struct Place {
  std::string host;
  std::optional<int> port = {};
};

std::vector<Place> parsePlaces(std::string_view text, Role role, const std::string& where) {
  std::vector<Place> places;
  const auto add = [&](std::string_view address) {
    const Address parsed = parseAddress(address, where);
    places.push_back({.host = parsed.host, .port = parsed.port});
  };
  if (splitHostList(text).size() > 1) {
    throw UsageError(
        fmt::format("{} has several hosts in {}; write each on a line of its own, or as n[1-4]:2222", where,
                    inQuotes(text)));
  }
  if (role != Role::Evaluator) {
    for (const Address& address : parseAddressList(text, where))
      places.push_back({.host = address.host, .port = address.port});
    return places;
  }
  if (text.find_first_of(":[]") == std::string_view::npos) {
    add(fmt::format("{}:1", text));  // checks the name
    places.back().port.reset();
    return places;
  }
  throw UsageError(
      fmt::format("{} has the evaluator {}; write one host's name without a port: nobody connects to it",
                  where, inQuotes(text)));
}

class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  void read(std::string_view line) {
    ++line_;
    const std::vector<std::string_view> words = wordsOf(line.substr(0, line.find('#')));
    if (words.empty()) return;
    const std::string where = at(line_);
    if (words.size() < 2) {
      throw UsageError(fmt::format("{} has {} without a role; write HOST:PORT and ps, worker or evaluator",
                                   where, inQuotes(words[0])));
    }
    const Role role = parseRole(words[1], where);
    const std::vector<int> cores = parseOptions({words.begin() + 2, words.end()}, where);
    for (const Place& place : parsePlaces(words[0], role, where)) add(place, role, cores);
  }

  std::vector<PlannedMember> members() {
    if (count(Role::Worker) == 0)
      throw UsageError(fmt::format("{} names no worker; add a line such as node1:2222 worker", source_));
    std::ranges::stable_sort(members_, {}, [](const PlannedMember& member) { return member.place.role; });
    std::map<std::string, int> onHost;
    for (PlannedMember& member : members_) member.place.localIndex = onHost[member.place.host]++;
    return std::move(members_);
  }

 private:
  std::string at(int line) const { return fmt::format("line {} of {}", line, source_); }

  std::ptrdiff_t count(Role role) const {
    return std::ranges::count_if(members_,
                                 [&](const PlannedMember& member) { return member.place.role == role; });
  }

  static std::vector<int> parseOptions(const std::vector<std::string_view>& words, const std::string& where) {
    std::optional<std::vector<int>> cores;
    for (const std::string_view word : words) {
      if (!word.starts_with(kCores)) {
        throw UsageError(
            fmt::format("{} has {} after the role, where only cores=0-3 may stand", where, inQuotes(word)));
      }
      if (cores) throw UsageError(fmt::format("{} has cores= twice; leave one out", where));
      cores = parseNumberList(word.substr(kCores.size()), fmt::format("cores= in {}", where));
    }
    return cores.value_or(std::vector<int>{});
  }

  void add(const Place& place, Role role, const std::vector<int>& cores) {
    if (members_.size() == kMostHosts)
      throw UsageError(fmt::format("{} names more than {} processes; give fewer", source_, kMostHosts));
    if (role == Role::Evaluator && count(role) > 0) {
      throw UsageError(fmt::format(
          "{} has a second evaluator; one looks at every checkpoint, so leave it out", at(line_)));
    }
    // ssh would take it for an option.
    if (place.host.starts_with('-')) {
      throw UsageError(
          fmt::format("{} has the host {}, which begins with '-'", at(line_), inQuotes(place.host)));
    }
    if (place.port) takeAddress({.host = place.host, .port = *place.port});
    for (const int core : cores) takeCore(place.host, core);
    const int index = static_cast<int>(count(role));
    PlannedMember& member = members_.emplace_back();
    member.place.role = role;
    member.place.index = index;
    member.place.host = place.host;
    member.place.port = place.port;
    member.cores = cores;
  }

  void takeAddress(const Address& address) {
    const auto [other, isNew] = addresses_.emplace(toText(address), line_);
    if (isNew) return;
    throw UsageError(fmt::format("{} has {}, as line {} has; give each process a port of its own", at(line_),
                                 other->first, other->second));
  }

  void takeCore(const std::string& host, int core) {
    const auto [other, isNew] = cores_.emplace(std::pair(host, core), line_);
    if (isNew) return;
    throw UsageError(fmt::format("{} has core {} of {}, as line {} has; give each process cores of its own",
                                 at(line_), core, host, other->second));
  }

  const std::string& source_;
  int line_ = 0;
  std::vector<PlannedMember> members_;
  std::map<std::string, int> addresses_;              // line by address
  std::map<std::pair<std::string, int>, int> cores_;  // line by host and core
};

std::string addressesOf(const std::vector<PlannedMember>& members, Role role) {
  std::vector<std::string> addresses;
  for (const PlannedMember& member : members) {
    if (member.place.role == role)
      addresses.push_back(toText(Address{.host = member.place.host, .port = member.place.port.value()}));
  }
  return fmt::format("{}", fmt::join(addresses, ","));
}

}  // namespace

std::vector<PlannedMember> parseHostsFile(std::string_view text, const std::string& source) {
  Reader reader(source);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    reader.read(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return reader.members();
}

std::vector<std::string> placeFlags(const std::vector<PlannedMember>& members, std::size_t me) {
  std::vector<std::string> flags;
  const std::string servers = addressesOf(members, Role::Server);
  if (!servers.empty()) flags.insert(flags.end(), {"--ps-hosts", servers});
  const PlannedMember& own = members[me];
  flags.insert(flags.end(), {"--worker-hosts", addressesOf(members, Role::Worker), "--job-name",
                             jobNameOf(own.place.role), "--task-index", std::to_string(own.place.index)});
  if (!own.cores.empty()) flags.insert(flags.end(), {"--devices-visible", numberListText(own.cores)});
  return flags;
}

}  // namespace cohort
