#include "planner/step_simulation.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "planner/lane_program.h"
#include "planner/step_division.h"
#include "planner/timeline.h"

namespace cohort {
namespace {

// All but `place` of so many, from the one behind it on. Real messages to several are under way at the same time; here they go
// one after the other, and if everybody began with the same receiver, its cable would be what all wait for.
std::vector<int> othersAfter(int place, int count) {
  std::vector<int> others;
  for (int step = 1; step < count; ++step) others.push_back((place + step) % count);
  return others;
}

class StepSimulation {
 public:
  StepSimulation(const StepDivision& division, const StepSettings& settings, const CostModel& costs,
                 const WorkerNetwork& network);

  StepForecast run();

 private:
  using Part = StepDivision::Part;
  using Exchange = StepDivision::Exchange;

  struct Lane {
    int worker = 0;
    int number = 0;
    int unit = 0;  // the one that is computed, and the last one's end
    int lastUnit = 0;
    std::size_t task = 0;
    int open = -1;     // the node whose gradients are complete when the lane goes on
    int awaited = -1;  // the place in `arrived` that it waits for
    double waitsSince = 0;
    std::vector<int> arrived{};  // by unit of the worker, collective and pass: messages that have come
  };

  static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  const StepDivision::Worker& worker(int rank) const { return division_.workers[index(rank)]; }
  const Exchange& exchange(const Part& part) const { return division_.exchanges[index(part.exchange)]; }
  const LaneProgram& program(const Lane& lane) const { return programs_[index(worker(lane.worker).member)]; }
  Lane& lane(int rank, int number) { return lanes_[index(firstLane_[index(rank)] + number)]; }
  double speed(int rank) const { return network_.host(rank).speed; }
  int arrivalPlace(const Lane& lane, int unit, int collective, Pass pass) const {
    return (unit * static_cast<int>(program(lane).collectives.size()) + collective) * 2 +
           static_cast<int>(pass);
  }

  void addLanes();
  void addSums();

  // The lane goes on, now.
  void proceed(Lane& lane);
  void compute(Lane& lane, const LaneTask& task);
  void begin(const Lane& from, const LaneTask& task);
  bool mustWait(Lane& lane, const LaneTask& task);
  void messageCame(Lane& lane, int place);

  // The node's gradients of the lane's unit are complete; returns how long the lane is busy applying buckets.
  double close(const Lane& lane, int node);
  // Sends it to the owners of its slices. Whether it was the last one that this worker's own slice was waiting for.
  bool finishSum(int rank, const Part& part, int bucket);
  double updateSeconds(int rank, const Part& part, int bucket) const;
  void gradientCame(int rank, const Part& part, int bucket);
  void sendWeights(int rank, const Part& part, int bucket);

  // A worker's place in an exchange.
  const Part& partOf(int rank, int exchange) const;
  std::string bucketName(const Part& part, int bucket) const {
    return fmt::format("{}bucket {}", exchange(part).isPrivate ? "private " : "", bucket);
  }
  template <class What>
  void keep(int rank, int thread, double begin, double end, What&& what) {
    if (settings_.keepSpans && end > begin) spans_.push_back({rank, thread, what(), begin, end});
  }

  const StepDivision& division_;
  const StepSettings& settings_;
  const CostModel& costs_;
  const WorkerNetwork& network_;
  Timeline timeline_;
  Communication communication_;
  std::vector<LaneProgram> programs_;  // by member
  std::vector<int> firstLane_;         // by worker
  std::vector<Lane> lanes_;
  // By worker and part; then by sum and bucket: pieces of units that are not closed yet.
  std::vector<std::vector<std::vector<int>>> open_;
  // By exchange; then by bucket and place of the slice's owner: sums that it does not have yet.
  std::vector<std::vector<int>> missing_;
  StepForecast forecast_;
  std::vector<TimeSpan> spans_;
};

StepSimulation::StepSimulation(const StepDivision& division, const StepSettings& settings,
                               const CostModel& costs, const WorkerNetwork& network)
    : division_(division),
      settings_(settings),
      costs_(costs),
      network_(network),
      communication_(network, timeline_) {
  for (const LocalGraph& member : division.members) {
    programs_.push_back(laneProgram(member, costs, settings.grainSamples));
  }
  forecast_.workers.resize(division.workers.size());
  addLanes();
  addSums();
}

void StepSimulation::addLanes() {
  for (int rank = 0; rank < std::ssize(division_.workers); ++rank) {
    firstLane_.push_back(static_cast<int>(lanes_.size()));
    const std::vector<GrainRange>& shares = worker(rank).lanes;
    const std::size_t collectives = programs_[index(worker(rank).member)].collectives.size();
    for (int number = 0; number < std::ssize(shares); ++number) {
      const GrainRange units = shares[index(number)];
      lanes_.push_back({.worker = rank, .number = number, .unit = units.first, .lastUnit = units.last});
      lanes_.back().arrived.resize(index(shares.back().last) * collectives * 2);
    }
  }
}

void StepSimulation::addSums() {
  for (const StepDivision::Worker& self : division_.workers) {
    auto& open = open_.emplace_back();
    for (const Part& part : self.parts) {
      const BucketPlan& buckets = exchange(part).buckets;
      std::vector<int>& counts = open.emplace_back();
      for (const int units : part.unitsIn) {
        for (int bucket = 0; bucket < buckets.count(); ++bucket)
          counts.push_back(units * buckets.piecesIn(bucket));
      }
    }
  }
  for (const Exchange& all : division_.exchanges) {
    missing_.emplace_back(index(all.buckets.count()) * all.workers.size(), all.sums);
  }
}

StepForecast StepSimulation::run() {
  for (Lane& lane : lanes_) timeline_.at(0, [this, &lane] { proceed(lane); });
  timeline_.run();
  for (const Lane& lane : lanes_) {
    COHORT_CHECK(lane.unit == lane.lastUnit, "every lane comes to its end");
  }
  forecast_.seconds = timeline_.now();
  for (int rank = 0; rank < std::ssize(division_.workers); ++rank) {
    forecast_.workers[index(rank)].sentBytes = communication_.sentBytes(rank);
    forecast_.workers[index(rank)].memory = memoryOf(division_, rank, settings_);
  }
  std::ranges::stable_sort(spans_, {}, &TimeSpan::begin);
  forecast_.spans = std::move(spans_);
  return std::move(forecast_);
}

void StepSimulation::proceed(Lane& lane) {
  if (lane.open >= 0) {
    const int node = std::exchange(lane.open, -1);
    const double seconds = close(lane, node);
    const double now = timeline_.now();
    if (seconds > 0) {
      keep(lane.worker, lane.number, now, now + seconds, [] { return std::string("update"); });
      return timeline_.at(now + seconds, [this, &lane] { proceed(lane); });
    }
  }
  const std::vector<LaneTask>& tasks = program(lane).tasks;
  while (lane.unit < lane.lastUnit) {
    if (lane.task == tasks.size()) {
      lane.task = 0;
      ++lane.unit;
      continue;
    }
    const LaneTask& task = tasks[lane.task];
    if (task.kind == LaneTask::Kind::Wait && mustWait(lane, task)) return;
    ++lane.task;
    if (task.kind == LaneTask::Kind::Compute) return compute(lane, task);
    if (task.kind == LaneTask::Kind::Begin) begin(lane, task);
  }
  double& end = forecast_.workers[index(lane.worker)].computeSeconds;
  end = std::max(end, timeline_.now());
}

void StepSimulation::compute(Lane& lane, const LaneTask& task) {
  const double now = timeline_.now();
  const double end = now + task.seconds / speed(lane.worker);
  keep(lane.worker, lane.number, now, end, [&] {
    const Graph& graph = division_.members[index(worker(lane.worker).member)].graph;
    return fmt::format("{} {}", task.pass == Pass::Forward ? "forward" : "backward",
                       graph.nodes[index(task.index)].name);
  });
  if (task.closes) lane.open = task.index;
  timeline_.at(end, [this, &lane] { proceed(lane); });
}

void StepSimulation::begin(const Lane& from, const LaneTask& task) {
  const LaneCollective& collective = program(from).collectives[index(task.index)];
  const std::vector<std::size_t>& bytesTo = collective.bytesTo[static_cast<std::size_t>(task.pass)];
  for (const int member : othersAfter(worker(from.worker).member, static_cast<int>(bytesTo.size()))) {
    if (bytesTo[index(member)] == 0) continue;
    const int rank = worker(from.worker).group + member;
    Lane& to = lane(rank, from.number);
    const int place = arrivalPlace(to, from.unit, task.index, task.pass);
    const Communication::Busy busy = communication_.send(from.worker, rank, bytesTo[index(member)],
                                                         [this, &to, place] { messageCame(to, place); });
    keep(from.worker, TimeSpan::kCommunication, busy.begin, busy.end, [&] {
      const Graph& graph = division_.members[index(worker(from.worker).member)].graph;
      return fmt::format("{} to worker {}", graph.nodes[index(collective.node)].name, rank);
    });
  }
}

bool StepSimulation::mustWait(Lane& lane, const LaneTask& task) {
  const int place = arrivalPlace(lane, lane.unit, task.index, task.pass);
  const int senders =
      program(lane).collectives[index(task.index)].senders[static_cast<std::size_t>(task.pass)];
  if (lane.arrived[index(place)] == senders) return false;
  lane.awaited = place;
  lane.waitsSince = timeline_.now();
  return true;
}

void StepSimulation::messageCame(Lane& lane, int place) {
  ++lane.arrived[index(place)];
  if (lane.awaited != place) return;
  const LaneTask& task = program(lane).tasks[lane.task];
  const LaneCollective& collective = program(lane).collectives[index(task.index)];
  if (lane.arrived[index(place)] < collective.senders[static_cast<std::size_t>(task.pass)]) return;
  lane.awaited = -1;
  forecast_.workers[index(lane.worker)].waitSeconds += timeline_.now() - lane.waitsSince;
  keep(lane.worker, lane.number, lane.waitsSince, timeline_.now(), [&] {
    const Graph& graph = division_.members[index(worker(lane.worker).member)].graph;
    return fmt::format("wait {}", graph.nodes[index(collective.node)].name);
  });
  proceed(lane);
}

double StepSimulation::close(const Lane& lane, int node) {
  const StepDivision::Worker& self = worker(lane.worker);
  double seconds = 0;
  for (const StepDivision::Close& closed : division_.closes[index(self.member)][index(node)]) {
    const Part& part = self.parts[index(closed.part)];
    const int sum = part.sumOfUnit[index(lane.unit)];
    int& open = open_[index(lane.worker)][index(closed.part)]
                     [index(sum * exchange(part).buckets.count() + closed.bucket)];
    open -= closed.pieces;
    if (open > 0 || !finishSum(lane.worker, part, closed.bucket)) continue;
    seconds += updateSeconds(lane.worker, part, closed.bucket);
    timeline_.at(timeline_.now() + seconds, [this, rank = lane.worker, &part, bucket = closed.bucket] {
      sendWeights(rank, part, bucket);
    });
  }
  return seconds;
}

bool StepSimulation::finishSum(int rank, const Part& part, int bucket) {
  const Exchange& all = exchange(part);
  for (const int place : othersAfter(part.place, static_cast<int>(all.workers.size()))) {
    const std::size_t floats = all.buckets.slice(bucket, place).size();
    if (floats == 0) continue;
    const int owner = all.workers[index(place)];
    const Part& its = partOf(owner, part.exchange);
    const Communication::Busy busy =
        communication_.send(rank, owner, floats * index(settings_.wireFloatBytes),
                            [this, owner, &its, bucket] { gradientCame(owner, its, bucket); });
    keep(rank, TimeSpan::kCommunication, busy.begin, busy.end,
         [&] { return fmt::format("gradients of {} to worker {}", bucketName(part, bucket), owner); });
  }
  if (all.buckets.slice(bucket, part.place).size() == 0) return false;
  return --missing_[index(part.exchange)][index(bucket) * all.workers.size() + index(part.place)] == 0;
}

const StepDivision::Part& StepSimulation::partOf(int rank, int exchange) const {
  return *std::ranges::find(worker(rank).parts, exchange, &Part::exchange);
}

double StepSimulation::updateSeconds(int rank, const Part& part, int bucket) const {
  return costs_.updateSeconds(exchange(part).buckets.slice(bucket, part.place).size()) / speed(rank);
}

void StepSimulation::gradientCame(int rank, const Part& part, int bucket) {
  int& missing =
      missing_[index(part.exchange)][index(bucket) * exchange(part).workers.size() + index(part.place)];
  if (--missing > 0) return;
  const Communication::Busy busy = communication_.work(rank, updateSeconds(rank, part, bucket));
  keep(rank, TimeSpan::kCommunication, busy.begin, busy.end,
       [&] { return "update " + bucketName(part, bucket); });
  timeline_.at(busy.end, [this, rank, &part, bucket] { sendWeights(rank, part, bucket); });
}

void StepSimulation::sendWeights(int rank, const Part& part, int bucket) {
  const Exchange& all = exchange(part);
  const std::size_t bytes = all.buckets.slice(bucket, part.place).size() * index(settings_.wireFloatBytes);
  for (const int place : othersAfter(part.place, static_cast<int>(all.workers.size()))) {
    const int other = all.workers[index(place)];
    const Communication::Busy busy = communication_.send(rank, other, bytes, [] {});
    keep(rank, TimeSpan::kCommunication, busy.begin, busy.end,
         [&] { return fmt::format("weights of {} to worker {}", bucketName(part, bucket), other); });
  }
}

}  // namespace

StepForecast simulateStep(const Graph& graph, const Strategy& strategy, const Mesh& mesh,
                          const StepSettings& settings, const CostModel& costs,
                          const WorkerNetwork& network) {
  COHORT_CHECK(network.workers() == mesh.workers(), "the network connects the workers of the mesh");
  const StepDivision division = divideStep(graph, strategy, mesh, settings);
  return StepSimulation(division, settings, costs, network).run();
}

}  // namespace cohort
