#include "doctor/survey.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>

#include <fmt/format.h>

#include "doctor/directory_check.h"
#include "doctor/link.h"
#include "doctor/rounds.h"
#include "doctor/socket.h"

namespace cohort {
namespace {

constexpr double kNameSeconds = 3;
// For all rounds together, and for one direction of one pair at most and at least.
constexpr double kRateSeconds = 4;
constexpr double kMostSeconds = 0.1;
constexpr double kLeastSeconds = 0.02;
// For a connection; and for each of those that come when many took long: hosts that nobody reaches must not add up.
constexpr double kConnectSeconds = 2;
constexpr double kHurriedSeconds = 0.3;
constexpr double kHurryAfter = 10;

double wallClock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double secondsIn(const std::string& text) {
  return std::strtod(text.c_str(), nullptr);
}

// What everybody's clock says after the first one has spoken and before it hears the answer must lie between these two times of
// its own: what does not is off by at least the difference.
std::vector<double> clocksAhead(Meeting& meeting) {
  const double begin = wallClock();
  meeting.share("", "its clock");
  const std::string now = fmt::format("{:.6f}", wallClock());
  const auto texts = meeting.share(now, "its clock");
  const double end = wallClock();
  const auto bounds = meeting.tell(fmt::format("{:.6f} {:.6f}", begin, end), "its clock");
  const double first = secondsIn(bounds);
  const double last = secondsIn(bounds.substr(std::min(bounds.find(' '), bounds.size())));
  std::vector<double> ahead;
  for (const auto& text : texts) {
    const double time = text ? secondsIn(*text) : first;
    ahead.push_back(time < first ? time - first : std::max(0.0, time - last));
  }
  return ahead;
}

std::vector<std::optional<MemberFacts>> shareFacts(Meeting& meeting, const MemberFacts& own) {
  std::vector<std::optional<MemberFacts>> members;
  for (const auto& text : meeting.share(toText(own), "what it found of its host")) {
    members.push_back(text ? std::optional(memberFactsOf(*text)) : std::nullopt);
  }
  return members;
}

// The way to every other host, in rounds.
class LinkRounds {
 public:
  LinkRounds(Meeting& meeting, const Survey& survey, const Examination& examination, std::string token)
      : meeting_(meeting),
        survey_(survey),
        addresses_(examination.addresses),
        token_(std::move(token)),
        hosts_(membersByHost(survey.members)) {
    const auto own =
        std::ranges::find(hosts_, meeting.place(), [](const auto& host) { return host.front(); });
    if (own != hosts_.end()) own_ = static_cast<int>(own - hosts_.begin());
    if (own_ >= 0) findNames();
  }

  std::vector<LinkFacts> run() {
    const auto rounds = tournament(static_cast<int>(hosts_.size()));
    const double seconds =
        std::clamp(kRateSeconds / static_cast<double>(2 * rounds.size() + 1), kLeastSeconds, kMostSeconds);
    for (const auto& round : rounds) {
      const auto pair =
          std::ranges::find_if(round, [&](const auto& p) { return p.first == own_ || p.second == own_; });
      const bool isPlaying = own_ >= 0 && pair != round.end();
      if (isPlaying && pair->first == own_) measure(pair->second, seconds);
      meeting_.share("", "the links between hosts");
      // And whether there is a way back that others can begin.
      if (isPlaying && pair->second == own_) measure(pair->first, 0);
      meeting_.share("", "the links between hosts");
    }
    std::vector<LinkFacts> all;
    for (const auto& text : meeting_.share(toText(links_), "the links between hosts")) {
      if (!text) continue;
      for (LinkFacts& link : linkFactsOf(*text)) all.push_back(std::move(link));
    }
    return all;
  }

 private:
  const MemberFacts& speaker(std::size_t host) const {
    return *survey_.members[static_cast<std::size_t>(hosts_[host].front())];
  }

  void findNames() {
    std::vector<std::string> names;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      const auto member = static_cast<std::size_t>(hosts_[host].front());
      names.push_back(addresses_.empty() ? speaker(host).host : addresses_[member].host);
    }
    names_ = resolve(names, deadlineIn(kNameSeconds));
  }

  LinkTarget targetOf(std::size_t host) const {
    LinkTarget target{.addresses = names_[host].addresses, .port = speaker(host).linkPort};
    if (!addresses_.empty()) return target;
    // A name that means this host itself here is of no use.
    std::erase_if(target.addresses,
                  [](const std::string& text) { return text.starts_with("127.") || text == "::1"; });
    for (const HostAddress& address : speaker(host).addresses) {
      if (std::ranges::find(target.addresses, address.address) == target.addresses.end())
        target.addresses.push_back(address.address);
    }
    return target;
  }

  void measure(int other, double seconds) {
    const auto host = static_cast<std::size_t>(other);
    if (speaker(host).linkPort == 0) return;
    const bool isHurried = std::chrono::steady_clock::now() > hurry_;
    LinkFacts link =
        measureLink(targetOf(host), {.token = token_,
                                     .connectSeconds = isHurried ? kHurriedSeconds : kConnectSeconds,
                                     .rateSeconds = seconds});
    link.from = meeting_.place();
    link.to = hosts_[host].front();
    link.nameError = names_[host].error;
    links_.push_back(std::move(link));
  }

  Meeting& meeting_;
  const Survey& survey_;
  const std::vector<Address>& addresses_;
  std::string token_;
  std::vector<std::vector<int>> hosts_;
  int own_ = -1;  // the host for which this member speaks; -1: none
  Deadline hurry_ = deadlineIn(kHurryAfter);
  std::vector<Resolved> names_;
  std::vector<LinkFacts> links_;
};

bool speaksForHost(const Survey& survey, int place) {
  return std::ranges::any_of(membersByHost(survey.members),
                             [&](const std::vector<int>& host) { return host.front() == place; });
}

}  // namespace

Survey briefSurvey(Meeting& meeting, const OwnPlace& own, const PlannedRun& plan) {
  Survey survey{.plan = plan, .members = shareFacts(meeting, ownFacts(own))};
  survey.clockAhead = clocksAhead(meeting);
  return survey;
}

Survey examine(Meeting& meeting, Examination examination) {
  MemberFacts own = ownFacts(examination.own);
  std::string error;
  if (!examination.listener && examination.addresses.empty()) examination.listener = listenAt(0, error);
  if (examination.listener) own.linkPort = portOf(examination.listener);

  std::random_device random;
  const std::string token = meeting.tell(
      fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random()), "a word for all");
  std::optional<LinkServer> server;
  if (examination.listener) server.emplace(std::move(examination.listener), token);

  Survey survey{.plan = examination.plan,
                .members = shareFacts(meeting, own),
                .missing = missingOf(meeting.tell(toText(examination.missing), "who is missing")),
                .waited = examination.waited,
                .directory = examination.directory.string()};
  survey.clockAhead = clocksAhead(meeting);
  if (!examination.directory.empty()) {
    survey.directories =
        checkDirectory(meeting, examination.directory, speaksForHost(survey, meeting.place()));
  }
  survey.links = LinkRounds(meeting, survey, examination, token).run();
  return survey;
}

}  // namespace cohort
