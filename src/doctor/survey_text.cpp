#include "doctor/survey_text.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cluster/number_list.h"

namespace cohort {
namespace {

constexpr std::size_t kShownHosts = 6;

using Row = std::vector<std::string>;

std::string bytesText(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.3g} MB", bytes / 1e6) : fmt::format("{:.3g} GB", bytes / 1e9);
}

std::string rateText(double rate) {
  return rate > 0 ? bytesText(rate) + "/s" : "-";
}

std::string timeText(double seconds) {
  return fmt::format("{:.2g} ms", 1e3 * seconds);
}

// Columns as wide as their widest cell, two spaces before each.
std::string tableText(const std::vector<Row>& rows) {
  std::vector<std::string> lines(rows.size());
  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    std::size_t width = 0;
    for (const Row& row : rows) width = std::max(width, row[column].size());
    for (std::size_t i = 0; i < rows.size(); ++i) lines[i] += fmt::format("  {:<{}}", rows[i][column], width);
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

class Writer {
 public:
  explicit Writer(const Survey& survey) : survey_(survey), hosts_(membersByHost(survey.members)) {}

  std::string text() const {
    if (hosts_.empty()) return "nobody is there";
    std::size_t members = 0;
    for (const std::vector<int>& host : hosts_) members += host.size();
    std::string text =
        fmt::format("{} host{}, {} process{}; cohort {}; {}\n", hosts_.size(), hosts_.size() == 1 ? "" : "s",
                    members, members == 1 ? "" : "es", speaker(0).program, speaker(0).instructionSet);
    text += tableText(hostRows());
    if (hosts_.size() > 1) text += "\n" + linksText();
    text += "\n" + planText();
    return text;
  }

 private:
  const MemberFacts& member(int index) const { return *survey_.members[static_cast<std::size_t>(index)]; }
  const MemberFacts& speaker(std::size_t host) const { return member(hosts_[host].front()); }

  // The link that was measured from one host to another; nothing where none was.
  const LinkFacts* linkOf(std::size_t from, std::size_t to) const {
    const auto found = std::ranges::find_if(survey_.links, [&](const LinkFacts& link) {
      return link.from == hosts_[from].front() && link.to == hosts_[to].front() && link.error.empty();
    });
    return found == survey_.links.end() ? nullptr : &*found;
  }

  // As others reached it, or where nobody did, its first one.
  std::string addressText(std::size_t host) const {
    std::string address;
    for (const LinkFacts& link : survey_.links) {
      if (link.to == hosts_[host].front() && !link.address.empty()) address = link.address;
    }
    const std::vector<HostAddress>& all = speaker(host).addresses;
    if (address.empty() && !all.empty()) address = all.front().address;
    const auto found = std::ranges::find(all, address, &HostAddress::address);
    return found == all.end() ? address : fmt::format("{} ({})", address, found->interface);
  }

  std::string coresText(std::size_t host) const {
    std::set<int> cores;
    for (const int index : hosts_[host]) cores.insert(member(index).cores.begin(), member(index).cores.end());
    return fmt::format("{} of {} ({})", cores.size(), speaker(host).onlineCores,
                       numberListText({cores.begin(), cores.end()}));
  }

  std::vector<Row> hostRows() const {
    std::vector<Row> rows = {{"host", "processes", "address", "cores", "memory left", "clock"}};
    if (!survey_.directory.empty()) rows.front().push_back("writes");
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      const auto index = static_cast<std::size_t>(hosts_[host].front());
      const double ahead = index < survey_.clockAhead.size() ? survey_.clockAhead[index] : 0;
      rows.push_back({speaker(host).host, fmt::format("{}", hosts_[host].size()), addressText(host),
                      coresText(host),
                      fmt::format("{} of {}", bytesText(static_cast<double>(speaker(host).freeBytes)),
                                  bytesText(static_cast<double>(speaker(host).memoryBytes))),
                      std::abs(ahead) < 0.05 ? "same" : fmt::format("{:+.1f} s", ahead)});
      if (!survey_.directory.empty())
        rows.back().push_back(rateText(survey_.directories[index].bytesPerSecond));
    }
    return rows;
  }

  std::string linksText() const {
    const LinkFacts* slowest = nullptr;
    const LinkFacts* longest = nullptr;
    const auto rate = [](const LinkFacts& link) { return std::min(link.there, link.back); };
    for (const LinkFacts& link : survey_.links) {
      if (!link.error.empty() || link.there <= 0) continue;
      if (slowest == nullptr || rate(link) < rate(*slowest)) slowest = &link;
      if (longest == nullptr || link.roundTrip > longest->roundTrip) longest = &link;
    }
    if (slowest == nullptr) return "no way between two hosts was found";
    const auto pairText = [&](const LinkFacts& link) {
      return fmt::format("{} and {}", member(link.from).host, member(link.to).host);
    };
    std::string text = fmt::format("between hosts at least {} ({}), round trips of at most {} ({})",
                                   rateText(rate(*slowest)), pairText(*slowest), timeText(longest->roundTrip),
                                   pairText(*longest));
    return hosts_.size() <= kShownHosts ? text + "\n" + matrixText() : text;
  }

  std::string matrixText() const {
    std::vector<Row> rows(1, {"from"});
    for (std::size_t to = 0; to < hosts_.size(); ++to) rows.front().push_back("to " + speaker(to).host);
    for (std::size_t from = 0; from < hosts_.size(); ++from) {
      Row row = {speaker(from).host};
      for (std::size_t to = 0; to < hosts_.size(); ++to) row.push_back(cellText(from, to));
      rows.push_back(std::move(row));
    }
    return tableText(rows);
  }

  std::string cellText(std::size_t from, std::size_t to) const {
    if (from == to) return "";
    const LinkFacts* own = linkOf(from, to);
    if (own == nullptr) return "no way";
    // The one of the two who asked has measured both directions.
    const LinkFacts* other = linkOf(to, from);
    const double rate = own->there > 0 ? own->there : other != nullptr ? other->back : 0;
    return fmt::format("{}, {}, {}", own->interface, rateText(rate), timeText(own->roundTrip));
  }

  std::string planText() const {
    std::string text = survey_.directory.empty()
                           ? "the job directory was not looked at (give --job-dir DIR)"
                           : fmt::format("{} is the same folder for all", survey_.directory);
    const bool isShared = std::ranges::all_of(survey_.directories, [](const DirectoryFacts& facts) {
      return facts.error.empty() && facts.unseen.empty();
    });
    if (!isShared) text = fmt::format("{} is not a folder for all", survey_.directory);
    if (survey_.plan.workerBytes > 0) {
      text += fmt::format("; a worker of the planned run needs about {}",
                          bytesText(static_cast<double>(survey_.plan.workerBytes)));
    }
    return text;
  }

  const Survey& survey_;
  std::vector<std::vector<int>> hosts_;
};

}  // namespace

std::string toText(const Survey& survey) {
  return Writer(survey).text();
}

std::string toText(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n",
                        finding.weight == Finding::Weight::Wrong ? "wrong" : "poor", finding.sentence);
  }
  return text;
}

}  // namespace cohort
