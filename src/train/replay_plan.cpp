#include "train/replay_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

class Planner {
 public:
  Planner(const std::vector<Journal>& journals, const ReplayPlanOptions& options) : options_(options) {
    for (const Journal& journal : journals) add(journal);
    for (const Journal& journal : journals) findParent(journal);
  }

  ReplayPlan plan(const std::vector<CenterMoment>& wanted) {
    for (const CenterMoment& moment : wanted) {
      plan_.moments.push_back(placesOf(moment));
      plan_.momentOpenings.push_back(plan_.timelines[indexOf(plan_.moments.back().front())].opening);
      demand(plan_.moments.back());
    }
    for (std::size_t i = 0; i < plan_.workers.size(); ++i) addExchanges(static_cast<int>(i));
    for (ReplayTimeline& timeline : plan_.timelines) addWorks(timeline);
    countLost();
    return std::move(plan_);
  }

 private:
  using Key = std::tuple<std::uint64_t, int, std::uint64_t>;  // opening, server, life

  static std::size_t indexOf(const TimelinePlace& place) { return static_cast<std::size_t>(place.timeline); }
  static std::string nameOf(const ReplayTimeline& timeline) {
    const JournalHead& head = timeline.journal->head();
    return journalName(head.setup.opening, head.server, head.life);
  }

  void add(const Journal& journal);
  void findWorkers(const Journal& journal, int opening);
  int workerOf(const Journal& journal, MemberId member) const { return members_.at({&journal, member}); }
  void findParent(const Journal& journal);
  TimelinePlace placeOf(std::uint64_t opening, int server, const ServerVersion& version) const;
  std::vector<TimelinePlace> placesOf(const CenterMoment& moment) const;
  std::vector<TimelinePlace> weightsOf(const ReplayTimeline& timeline, const JournalUpdate& update) const;
  void demand(std::vector<TimelinePlace> places);
  void demandExchange(int index, std::int64_t number, std::vector<TimelinePlace>& places);
  const JournalUpdate& exchangeOf(int worker, std::int64_t number) const;
  void resolve(int index);
  void addExchanges(int index);
  void addWorks(ReplayTimeline& timeline);
  int workOf(int opening, const Work& work, const std::vector<TimelinePlace>& weights);
  void countLost();

  const ReplayPlanOptions& options_;
  ReplayPlan plan_;
  std::map<Key, int> timelines_;
  std::map<std::uint64_t, int> openings_;
  std::unordered_map<std::string, int> works_;
  // Of workers with weights of their own.
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> workers_;  // by opening, and whose weights
  std::map<std::pair<const Journal*, MemberId>, int> members_;
  std::vector<std::map<std::int64_t, JournalUpdate>>
      exchanges_;  // by worker and number: as any server has it
};

void Planner::add(const Journal& journal) {
  const JournalHead& head = journal.head();
  const auto [found, isNew] =
      openings_.try_emplace(head.setup.opening, static_cast<int>(plan_.openings.size()));
  if (isNew) {
    plan_.openings.push_back({.number = head.setup.opening, .setup = &head.setup, .servers = head.servers});
  }
  const ReplayOpening& opening = plan_.openings[static_cast<std::size_t>(found->second)];
  const auto index = static_cast<int>(plan_.timelines.size());
  ReplayTimeline& timeline = plan_.timelines.emplace_back(
      ReplayTimeline{.journal = &journal, .opening = found->second, .needed = -1});
  if (opening.servers != head.servers || opening.setup->step != head.setup.step ||
      opening.setup->rule.name != head.setup.rule.name || opening.setup->grains != head.setup.grains) {
    throw UsageError(
        fmt::format("{} is of another run than the other journals of its opening", nameOf(timeline)));
  }
  if (!timelines_.try_emplace({head.setup.opening, head.server, head.life}, index).second)
    throw UsageError(fmt::format("{} is there twice", nameOf(timeline)));
  if (head.setup.rule.hasOwnWeights) findWorkers(journal, found->second);
}

void Planner::findWorkers(const Journal& journal, int opening) {
  for (const Journal::Member& member : journal.members()) {
    const auto [found, isNew] = workers_.try_emplace({journal.head().setup.opening, member.token},
                                                     static_cast<int>(plan_.workers.size()));
    if (isNew) {
      plan_.workers.push_back({.opening = opening, .token = member.token});
      exchanges_.emplace_back();
    }
    members_[{&journal, member.member}] = found->second;
  }
  for (std::size_t i = 0; i < journal.size(); ++i) {
    const JournalUpdate update = journal[i];
    const auto worker = members_.find({&journal, update.member});
    if (worker == members_.end())
      throw UsageError(fmt::format("the journals contradict each other: nobody knows member {} of {}",
                                   update.member, nameOf(plan_.timelines.back())));
    if (!update.isLeaving)
      exchanges_[static_cast<std::size_t>(worker->second)].emplace(update.exchange, update);
  }
}

void Planner::findParent(const Journal& journal) {
  const JournalHead& head = journal.head();
  if (!head.parent) return;
  const auto parent = timelines_.find({head.setup.opening, head.server, *head.parent});
  // Where it is missing, whoever needs it says so.
  if (parent == timelines_.end()) return;
  plan_.timelines[static_cast<std::size_t>(timelines_.at({head.setup.opening, head.server, head.life}))]
      .parent = parent->second;
}

TimelinePlace Planner::placeOf(std::uint64_t opening, int server, const ServerVersion& version) const {
  const std::string name = journalName(opening, server, version.life);
  const auto found = timelines_.find({opening, server, version.life});
  if (found == timelines_.end()) {
    throw UsageError(
        fmt::format("the journal {} of server {} is missing; name the folder that has it", name, server));
  }
  const Journal& journal = *plan_.timelines[static_cast<std::size_t>(found->second)].journal;
  if (version.version > journal.end()) {
    throw UsageError(fmt::format(
        "the journal {} of server {} ends with version {}{}, and version {} is needed", name, server,
        journal.end(),
        journal.torn() > 0 ? fmt::format(" ({} bytes at its end are not whole)", journal.torn()) : "",
        version.version));
  }
  if (version.version < journal.head().version) {
    throw UsageError(
        fmt::format("the journal {} of server {} begins with version {}, and version {} is needed", name,
                    server, journal.head().version, version.version));
  }
  return {found->second, version.version};
}

std::vector<TimelinePlace> Planner::placesOf(const CenterMoment& moment) const {
  std::vector<TimelinePlace> places;
  for (std::size_t i = 0; i < moment.servers.size(); ++i)
    places.push_back(placeOf(moment.opening, static_cast<int>(i), moment.servers[i]));
  const auto opening = openings_.find(moment.opening);
  if (places.empty() ||
      plan_.openings[static_cast<std::size_t>(opening->second)].servers != static_cast<int>(places.size())) {
    throw UsageError(fmt::format("the opening {:016x} had another number of servers than a moment of it says",
                                 moment.opening));
  }
  return places;
}

std::vector<TimelinePlace> Planner::weightsOf(const ReplayTimeline& timeline,
                                              const JournalUpdate& update) const {
  const std::uint64_t opening = timeline.setup().opening;
  const int servers = timeline.journal->head().servers;
  std::vector<TimelinePlace> places;
  for (int server = 0; server < servers; ++server) {
    if (!update.seen.empty()) {
      places.push_back(placeOf(opening, server, update.seen[static_cast<std::size_t>(server)]));
      continue;
    }
    // Where all step together, a server that dies ends the opening: it has one life.
    const auto found = timelines_.lower_bound({opening, server, 0});
    const bool isThere = found != timelines_.end() && std::get<0>(found->first) == opening &&
                         std::get<1>(found->first) == server;
    if (!isThere) {
      throw UsageError(
          fmt::format("the journal {:016x}-{}-… of server {} is missing; name the folder that has it",
                      opening, server, server));
    }
    places.push_back(placeOf(opening, server, {std::get<2>(found->first), update.step}));
  }
  return places;
}

// These, and all that they need.
void Planner::demand(std::vector<TimelinePlace> places) {
  while (!places.empty()) {
    const TimelinePlace place = places.back();
    places.pop_back();
    ReplayTimeline& timeline = plan_.timelines[indexOf(place)];
    if (place.version <= timeline.needed) continue;
    const Step before = std::max(timeline.needed, timeline.begin());
    if (!timeline.isNeeded()) {
      const JournalHead& head = timeline.journal->head();
      if (head.parent) {
        places.push_back(placeOf(head.setup.opening, head.server, {*head.parent, head.version}));
      } else {
        if (head.version != head.setup.step)
          throw UsageError(fmt::format("{} does not begin where its run was opened", nameOf(timeline)));
        resolve(timeline.opening);
      }
    }
    timeline.needed = place.version;
    for (Step version = before; version < place.version; ++version) {
      const JournalUpdate update = (*timeline.journal)[static_cast<std::size_t>(version - timeline.begin())];
      if (update.isLeaving) continue;
      if (update.exchange > 0) {
        demandExchange(workerOf(*timeline.journal, update.member), update.exchange, places);
      } else {
        for (const TimelinePlace& seen : weightsOf(timeline, update)) places.push_back(seen);
      }
    }
  }
}

const JournalUpdate& Planner::exchangeOf(int worker, std::int64_t number) const {
  const auto& exchanges = exchanges_[static_cast<std::size_t>(worker)];
  const auto found = exchanges.find(number);
  if (found == exchanges.end()) {
    throw UsageError(fmt::format(
        "exchange {} of a worker is in no journal, and its exchange {} is needed; name the folders that have "
        "the journals of all servers",
        number, exchanges.rbegin()->first));
  }
  return found->second;
}

// All of the worker's up to this one.
void Planner::demandExchange(int index, std::int64_t number, std::vector<TimelinePlace>& places) {
  ReplayWorker& worker = plan_.workers[static_cast<std::size_t>(index)];
  const std::uint64_t opening = plan_.openings[static_cast<std::size_t>(worker.opening)].number;
  const auto placesIn = [&](std::span<const ServerVersion> versions) {
    return placesOf({.opening = opening, .servers = {versions.begin(), versions.end()}});
  };
  while (worker.needed < number) {
    const JournalUpdate& exchange = exchangeOf(index, worker.needed + 1);
    for (const TimelinePlace& seen : placesIn(exchange.seen)) places.push_back(seen);
    if (worker.needed++ > 0) continue;
    worker.weights = placesIn(exchange.begunWith);
    places.insert(places.end(), worker.weights.begin(), worker.weights.end());
  }
}

// How an opening is come to: by computing what is before it, or else by a state that is kept.
void Planner::resolve(int index) {
  ReplayOpening& opening = plan_.openings[static_cast<std::size_t>(index)];
  if (std::exchange(opening.isNeeded, true)) return;
  const CenterMoment& origin = opening.setup->origin;
  if (!origin.isKnown()) return;
  const ReplayPlan before = plan_;
  try {
    const std::vector<TimelinePlace> places = placesOf(origin);
    demand(places);
    ReplayOpening& now = plan_.openings[static_cast<std::size_t>(index)];
    now.origin = places;
    now.originOpening = plan_.timelines[indexOf(places.front())].opening;
  } catch (const UsageError&) {
    if (!options_.hasState(*opening.setup)) throw;
    plan_ = before;
  }
}

void Planner::addExchanges(int index) {
  ReplayWorker& worker = plan_.workers[static_cast<std::size_t>(index)];
  const ReplayOpening& opening = plan_.openings[static_cast<std::size_t>(worker.opening)];
  for (std::int64_t number = 1; number <= worker.needed; ++number) {
    const JournalUpdate& exchange = exchangeOf(index, number);
    worker.works.push_back(static_cast<int>(plan_.works.size()));
    plan_.works.push_back({.opening = worker.opening,
                           .work = {exchange.step, {0, opening.setup->grains}},
                           .weights = placesOf({.opening = opening.number,
                                                .servers = {exchange.seen.begin(), exchange.seen.end()}}),
                           .worker = index,
                           .number = number,
                           .steps = exchange.steps});
    plan_.gradients += static_cast<std::int64_t>(exchange.steps.size());
  }
}

void Planner::addWorks(ReplayTimeline& timeline) {
  if (!timeline.isNeeded()) return;
  const CenterSetup& setup = timeline.setup();
  const GrainRange all{0, setup.grains};
  const bool isAlone = acceptanceOf(setup.rule) == Acceptance::AtOnce;
  for (Step version = timeline.begin(); version < timeline.needed; ++version) {
    const JournalUpdate update = (*timeline.journal)[static_cast<std::size_t>(version - timeline.begin())];
    if (update.isLeaving) {
      timeline.ends.push_back(timeline.works.size());
      ++plan_.updates;
      continue;
    }
    if (update.exchange > 0) {
      const int worker = workerOf(*timeline.journal, update.member);
      timeline.works.push_back(plan_.workers[static_cast<std::size_t>(worker)]
                                   .works[static_cast<std::size_t>(update.exchange - 1)]);
      ++plan_.works[static_cast<std::size_t>(timeline.works.back())].uses;
      timeline.ends.push_back(timeline.works.size());
      ++plan_.updates;
      continue;
    }
    const std::vector<TimelinePlace> weights = weightsOf(timeline, update);
    for (const GrainRange& range : update.grains.empty() ? std::span(&all, 1) : update.grains) {
      const int parts = isAlone ? 1 : std::min(options_.parts, range.count());
      for (int part = 0; part < parts; ++part) {
        timeline.works.push_back(
            workOf(timeline.opening, {update.step, shareOf(range, {part, parts})}, weights));
      }
    }
    timeline.ends.push_back(timeline.works.size());
    ++plan_.updates;
  }
}

int Planner::workOf(int opening, const Work& work, const std::vector<TimelinePlace>& weights) {
  std::string key = fmt::format("{} {} {} {}", opening, work.step, work.grains.first, work.grains.last);
  for (const TimelinePlace& place : weights) key += fmt::format(" {}@{}", place.timeline, place.version);
  const auto [found, isNew] = works_.try_emplace(std::move(key), static_cast<int>(plan_.works.size()));
  if (isNew) {
    plan_.works.push_back({.opening = opening, .work = work, .weights = weights});
    ++plan_.gradients;
  }
  ++plan_.works[static_cast<std::size_t>(found->second)].uses;
  return found->second;
}

void Planner::countLost() {
  // Of several lives that began in one, the last snapshot counts.
  std::map<int, Step> left;
  for (const ReplayTimeline& timeline : plan_.timelines) {
    if (!timeline.isNeeded() || timeline.parent < 0) continue;
    Step& version = left[timeline.parent];
    version = std::max(version, timeline.begin());
  }
  for (const auto& [parent, version] : left)
    plan_.lost += plan_.timelines[static_cast<std::size_t>(parent)].journal->end() - version;
}

}  // namespace

ReplayPlan planReplay(const std::vector<Journal>& journals, const std::vector<CenterMoment>& wanted,
                      const ReplayPlanOptions& options) {
  return Planner(journals, options).plan(wanted);
}

}  // namespace cohort
