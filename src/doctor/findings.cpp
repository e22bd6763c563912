#include "doctor/findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cluster/number_list.h"

namespace cohort {
namespace {

using Weight = Finding::Weight;

constexpr double kClockSeconds = 1;
constexpr double kSlowDisk = 5e6;    // bytes a second
constexpr double kSlowLink = 12e6;   // a network of 100 megabits has less
constexpr double kSlowShare = 0.25;  // of what the other links have
constexpr std::size_t kNamedHosts = 4;

std::string megabytes(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.3g} MB", bytes / 1e6) : fmt::format("{:.3g} GB", bytes / 1e9);
}

// "h1, h2 and 60 others"
std::string listed(const std::vector<std::string>& names) {
  if (names.size() <= kNamedHosts + 1) return fmt::format("{}", fmt::join(names, ", "));
  const std::vector<std::string> first(names.begin(), names.begin() + kNamedHosts);
  return fmt::format("{} and {} others", fmt::join(first, ", "), names.size() - kNamedHosts);
}

const char* plural(std::size_t count) {
  return count == 1 ? "" : "s";
}

// One look at a survey; each function is one question.
class Judge {
 public:
  explicit Judge(const Survey& survey) : survey_(survey), hosts_(membersByHost(survey.members)) {}

  std::vector<Finding> findings() {
    judgeMissing();
    if (!hosts_.empty()) {
      judgeNames();
      judgePrograms();
      judgeInstructionSets();
      judgeClocks();
      judgeDirectory();
      judgePorts();
      judgeLinks();
      judgeSpeed();
      judgeCores();
      judgeMemory();
    }
    std::ranges::stable_sort(found_, std::ranges::greater(), &Finding::weight);
    return std::move(found_);
  }

 private:
  const MemberFacts& member(int index) const { return *survey_.members[static_cast<std::size_t>(index)]; }
  const MemberFacts& speaker(const std::vector<int>& host) const { return member(host.front()); }
  const MemberFacts& first() const { return speaker(hosts_.front()); }
  std::size_t workersOf(const std::vector<int>& host) const {
    std::size_t workers = 0;
    for (const int index : host) workers += static_cast<std::size_t>(member(index).workers);
    return workers;
  }

  template <class... Arguments>
  void wrong(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    found_.push_back({Weight::Wrong, fmt::format(text, std::forward<Arguments>(arguments)...)});
  }
  template <class... Arguments>
  void poor(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    found_.push_back({Weight::Poor, fmt::format(text, std::forward<Arguments>(arguments)...)});
  }

  void judgeMissing() {
    for (const Missing& missing : survey_.missing) {
      wrong("{} did not answer within {:g} s ({}): start cohort doctor there too, or open the port",
            missing.name, survey_.waited, missing.reason);
    }
  }

  void judgeNames() {
    std::map<std::string, int> speakers;
    for (const std::vector<int>& host : hosts_) {
      const auto [other, isNew] = speakers.emplace(speaker(host).host, host.front());
      if (isNew) continue;
      wrong("{} and {} are on two machines that are both called {}: give each a name of its own",
            member(other->second).name, speaker(host).name, other->first);
    }
  }

  void judgePrograms() {
    // By what they have: some hosts' program may be another for each of several reasons.
    std::map<std::string, std::vector<std::string>> others;
    for (const std::vector<int>& host : hosts_) {
      for (const int index : host) {
        if (member(index).program == first().program) continue;
        std::vector<std::string>& names = others[member(index).program];
        if (names.empty() || names.back() != member(index).host) names.push_back(member(index).host);
      }
    }
    for (const auto& [program, names] : others) {
      wrong("{} {} another cohort ({}) than {} ({}): give all hosts the same program", listed(names),
            names.size() == 1 ? "has" : "have", program, first().host, first().program);
    }
  }

  void judgeInstructionSets() {
    // From the least to the best.
    const std::vector<std::string> order = {"sse41", "avx2", "avx512"};
    const auto rank = [&](const std::string& set) { return std::ranges::find(order, set) - order.begin(); };
    const std::string& wanted = survey_.plan.instructionSet;
    const auto least = std::ranges::min_element(
        hosts_, {}, [&](const std::vector<int>& host) { return rank(speaker(host).instructionSet); });
    const MemberFacts& weakest = speaker(*least);
    if (!wanted.empty()) {
      if (rank(weakest.instructionSet) < rank(wanted)) {
        wrong(
            "the processor of {} has {}, and the run uses {}: leave that host out, or start a run with --isa "
            "{}",
            weakest.host, weakest.instructionSet, wanted, weakest.instructionSet);
      }
      return;
    }
    for (const std::vector<int>& host : hosts_) {
      if (speaker(host).instructionSet == weakest.instructionSet) continue;
      wrong("the processor of {} has {} and that of {} {}: give --isa {}, so that all compute the same",
            weakest.host, weakest.instructionSet, speaker(host).host, speaker(host).instructionSet,
            weakest.instructionSet);
      return;
    }
  }

  void judgeClocks() {
    for (const std::vector<int>& host : hosts_) {
      const auto index = static_cast<std::size_t>(host.front());
      if (index >= survey_.clockAhead.size()) continue;
      const double ahead = survey_.clockAhead[index];
      if (std::abs(ahead) <= kClockSeconds) continue;
      poor(
          "the clock of {} is {:.0f} s {} that of {}: set it (chrony, ntpd); certificates and records need "
          "the time",
          speaker(host).host, std::abs(ahead), ahead > 0 ? "ahead of" : "behind", first().host);
    }
  }

  void judgeDirectory() {
    for (const std::vector<int>& host : hosts_) {
      // Members of a host have the same folder, or else each has its own say.
      std::set<std::string> said;
      for (const int index : host) {
        if (static_cast<std::size_t>(index) >= survey_.directories.size()) continue;
        const DirectoryFacts& facts = survey_.directories[static_cast<std::size_t>(index)];
        if (!facts.error.empty()) {
          if (!said.insert(facts.error).second) continue;
          wrong("{} cannot write in {} ({}): mount it there so that it can, or give another --job-dir",
                member(index).host, survey_.directory, facts.error);
        } else if (!facts.unseen.empty()) {
          if (!said.insert("unseen").second) continue;
          wrong("{} does not see in {} what {} writes there: give a --job-dir that all hosts share",
                member(index).host, survey_.directory, member(facts.unseen.front()).host);
        } else if (facts.bytesPerSecond > 0 && facts.bytesPerSecond < kSlowDisk) {
          poor("{} writes {}/s in {}: a faster folder makes checkpoints shorter", member(index).host,
               megabytes(facts.bytesPerSecond), survey_.directory);
        }
      }
    }
  }

  void judgePorts() {
    for (const std::optional<MemberFacts>& facts : survey_.members) {
      if (!facts) continue;
      for (const std::string& port : facts->busyPorts) {
        wrong("{} on {} cannot listen at port {}: end what has it, or choose another", facts->name,
              facts->host, port);
      }
    }
  }

  void judgeLinks() {
    std::map<int, std::vector<std::string>> strangers;  // by whose name they do not know
    std::map<int, std::vector<const LinkFacts*>> lost;  // by whom they do not reach
    for (const LinkFacts& link : survey_.links) {
      if (!link.nameError.empty()) strangers[link.to].push_back(member(link.from).host);
      if (!link.error.empty()) lost[link.to].push_back(&link);
    }
    for (const auto& [to, links] : lost) {
      std::vector<std::string> names;
      for (const LinkFacts* link : links) names.push_back(member(link->from).host);
      wrong("{} cannot reach {} ({}){}: open the way between them (firewall, routes, interface)",
            listed(names), member(to).host, links.front()->error, backText(to, links.front()->from));
    }
    for (const auto& [to, names] : strangers) {
      poor("{} {} not know the name {}: add it to /etc/hosts or the name server, or name hosts by address",
           listed(names), names.size() == 1 ? "does" : "do", member(to).host);
    }
  }

  // What is told where only one of two directions is closed.
  std::string backText(int from, int to) const {
    const bool isOpen = std::ranges::any_of(survey_.links, [&](const LinkFacts& link) {
      return link.from == from && link.to == to && link.error.empty();
    });
    return isOpen ? fmt::format(", though {} reaches {}", member(from).host, member(to).host) : "";
  }

  void judgeSpeed() {
    std::vector<double> rates;
    for (const LinkFacts& link : survey_.links) {
      if (link.there > 0) rates.push_back(std::min(link.there, link.back));
    }
    if (rates.empty()) return;
    std::ranges::nth_element(rates, rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2));
    const double middle = rates[rates.size() / 2];
    std::vector<std::string> slow;
    double slowest = middle;
    for (const LinkFacts& link : survey_.links) {
      const double rate = std::min(link.there, link.back);
      if (link.there <= 0 || (rate >= kSlowLink && rate >= kSlowShare * middle)) continue;
      slow.push_back(fmt::format("{} and {}", member(link.from).host, member(link.to).host));
      slowest = std::min(slowest, rate);
    }
    if (slow.empty()) return;
    const double bytes = static_cast<double>(survey_.plan.gradientBytes);
    const std::string cost =
        bytes > 0 ? fmt::format(", so that a step takes at least {:.2g} s", bytes / slowest) : "";
    poor(
        "between {} there are only {}/s{}: look at that network, or choose another interface (mpirun --mca "
        "btl_tcp_if_include)",
        listed(slow), megabytes(slowest), cost);
  }

  void judgeCores() {
    for (const std::vector<int>& host : hosts_) {
      if (judgeOverlap(host)) continue;
      std::map<std::vector<int>, std::size_t> sharers;
      for (const int index : host)
        sharers[member(index).cores] += static_cast<std::size_t>(member(index).workers);
      for (const auto& [cores, workers] : sharers) judgeLanes(speaker(host).host, cores.size(), workers);
    }
  }

  // Of those who have the same cores and divide them.
  void judgeLanes(const std::string& host, std::size_t cores, std::size_t workers) {
    const auto lanes = static_cast<std::size_t>(std::max(1, survey_.plan.lanes));
    if (workers * lanes <= cores) return;
    if (lanes == 1) {
      poor("{} workers on {} share {} core{}: start fewer there", workers, host, cores, plural(cores));
    } else if (workers <= cores) {
      poor("{} worker{} on {} with {} lanes each share {} core{}: give --threads {}, or start fewer there",
           workers, plural(workers), host, lanes, cores, plural(cores), cores / workers);
    } else {
      poor("{} workers on {} with {} lanes each share {} core{}: start fewer there", workers, host, lanes,
           cores, plural(cores));
    }
  }

  // Whether two have some cores in common and others not: nobody divides these.
  bool judgeOverlap(const std::vector<int>& host) {
    std::set<int> all;
    for (const int index : host) all.insert(member(index).cores.begin(), member(index).cores.end());
    const std::size_t workers = workersOf(host);
    if (workers > all.size()) {
      judgeLanes(speaker(host).host, all.size(), workers);
      return true;
    }
    for (const int a : host) {
      for (const int b : host) {
        if (a >= b || member(a).cores == member(b).cores) continue;
        std::vector<int> common;
        std::ranges::set_intersection(member(a).cores, member(b).cores, std::back_inserter(common));
        if (common.empty()) continue;
        poor(
            "{} and {} on {} share core{} {}: let the launcher bind each to its own (mpirun --bind-to core, "
            "srun "
            "--cpu-bind=cores), or none (--bind-to none)",
            member(a).name, member(b).name, speaker(host).host, plural(common.size()),
            numberListText(common));
        return true;
      }
    }
    return false;
  }

  void judgeMemory() {
    if (survey_.plan.workerBytes <= 0) return;
    for (const std::vector<int>& host : hosts_) {
      std::int64_t free = speaker(host).freeBytes;
      for (const int index : host) free = std::min(free, member(index).freeBytes);
      const std::size_t workers = workersOf(host);
      const double needed = static_cast<double>(survey_.plan.workerBytes) * static_cast<double>(workers);
      if (free <= 0 || needed <= static_cast<double>(free)) continue;
      poor(
          "{} has {} of memory left, and {} worker{} there need{} about {}: start fewer there, or give a "
          "smaller "
          "--batch-size or more --grains",
          speaker(host).host, megabytes(static_cast<double>(free)), workers, plural(workers),
          workers == 1 ? "s" : "", megabytes(needed));
    }
  }

  const Survey& survey_;
  std::vector<std::vector<int>> hosts_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> findingsOf(const Survey& survey) {
  return Judge(survey).findings();
}

}  // namespace cohort
