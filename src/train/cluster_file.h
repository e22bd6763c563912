// A cluster file, cluster.yaml: a cluster in numbers (cluster/cluster_model.h), for virtual runs and for plans.
//
//   hosts:                           # left out: each worker and each server has a host of its own
//     - {name: node, count: 8, cores: 16, speed: 1.0, workers: 8}       # node0 … node7
//     - {name: store, workers: 0, servers: 1, latency: 20us, bandwidth: 25Gbit}
//   links: {latency: 50us, bandwidth: 10Gbit}          # every host's cable, in each direction
//   same-host: {latency: 1us, bandwidth: 8GB}
//   compute: {seconds-per-sample: 1ms, seconds-per-step: 2ms, jitter: 0.1, distribution: normal}
//   stragglers:
//     - {worker: 3, factor: 4, from: 10s, until: 60s}
//   failures:
//     - {host: node5, at: 30s, back: 10s}
//     - {mean-time-between: 1h, back: never}           # of every worker
//
// Times are seconds, or have a unit: us, ms, s, m, h. Bandwidths are bytes in a second, or have one: bit, kbit, Mbit, Gbit, B, kB, MB, GB; or
// are unlimited. docs/virtual.md says what each does.
// Thread-safe; what is read is at most 1 MiB.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cluster/cluster_model.h"

namespace cohort {

// UsageError with "SOURCE:LINE:COLUMN: " where the text is no such map, a key is unknown (the nearest one is named) or given twice, or
// a value is out of its range.
ClusterModel clusterFromYaml(std::string_view text, const std::string& source);
ClusterModel readClusterFile(const std::filesystem::path& path);

// Everything, defaults too; clusterFromYaml gives the same model back.
std::string toYaml(const ClusterModel& model);

}  // namespace cohort
