// A cluster in numbers: its hosts, how fast they are, how they are connected, and what goes wrong there. For those who compute with
// a cluster that need not exist: a virtual run, a plan. Plain values; thread-safe.
//
// Seconds are seconds, bandwidths bytes in a second and 0 where nothing limits them.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// One host, or several alike.
struct HostModel {
  std::string name;  // of several: NAME0, NAME1 …
  int count = 1;
  std::optional<int> cores{};       // for all workers of it together; nothing: one for each
  double speed = 1;                 // of a core, relative
  std::optional<int> workers{};     // on each of them; nothing: an even share of those that are left
  std::optional<int> servers{};     // the same for servers
  std::optional<double> latency{};  // of its cable; nothing: as all cables
  std::optional<double> bandwidth{};

  bool operator==(const HostModel&) const = default;
};

struct LinkModel {
  double latency = 0;    // one way
  double bandwidth = 0;  // in each direction

  bool operator==(const LinkModel&) const = default;
};

// How long one core of speed 1 computes. All distributions have the mean 1, and the jitter as standard deviation.
struct ComputeModel {
  enum class Distribution {
    Normal,      // a bell from eight uniform numbers: at most 4.9 deviations from its mean
    Uniform,     // as wide to both sides
    Exponential  // a least time, and then as long as it takes
  };
  double secondsPerSample = 0.001;
  double secondsPerStep = 0;  // whatever the number of samples
  double jitter = 0;
  Distribution distribution = Distribution::Normal;

  bool operator==(const ComputeModel&) const = default;
};

// Whose: a worker by its number, or all of a host, by its own name or that of several alike. Neither: every worker.
struct WorkerChoice {
  std::optional<int> worker{};
  std::string host{};

  bool operator==(const WorkerChoice&) const = default;
};

// What begins to be computed in [from, until) takes `factor` times as long.
struct StragglerModel {
  WorkerChoice who;
  double factor = 1;
  double from = 0;
  double until = std::numeric_limits<double>::infinity();

  bool operator==(const StragglerModel&) const = default;
};

// Once, or again and again: exactly one of `at` and `every` is there.
struct FailureModel {
  WorkerChoice who;
  std::optional<double> at{};
  std::optional<double> every{};  // the mean time from coming back to failing again
  std::optional<double> back{};   // after so long; nothing: never

  bool operator==(const FailureModel&) const = default;
};

struct ClusterModel {
  std::vector<HostModel> hosts{};  // none: each worker and each server has one of its own
  LinkModel links{};               // between hosts
  LinkModel sameHost{};            // inside of one
  ComputeModel compute{};
  std::vector<StragglerModel> stragglers{};
  std::vector<FailureModel> failures{};

  bool operator==(const ClusterModel&) const = default;
};

// The largest jitter with which no time is negative.
double mostJitter(ComputeModel::Distribution distribution);
std::string_view distributionName(ComputeModel::Distribution distribution);
// Nothing where there is none of that name.
std::optional<ComputeModel::Distribution> distributionCalled(std::string_view name);

// Who is where.
struct ClusterPlaces {
  struct Host {
    std::string name;
    std::string kind;  // the name that it has in common with those alike
    int workers = 0;
    double cores = 0;  // for its workers
    double speed = 1;
    LinkModel cable;
  };
  std::vector<Host> hosts;
  std::vector<int> workers;  // the host of each; workers of a host have numbers in a row
  std::vector<int> servers;

  // By number; UsageError, naming `source`, where the choice names nobody.
  std::vector<int> chosen(const WorkerChoice& who, const std::string& source) const;
};

// UsageErrors that name `source`: where hosts have places for fewer or more, two have one name, or a straggler or failure names nobody, or
// the failure of a host would take a server with it.
ClusterPlaces placeOn(const ClusterModel& model, int workers, int servers, const std::string& source);

}  // namespace cohort
