#include "train/cluster_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

ClusterModel read(const std::string& text) {
  return clusterFromYaml(text, "c.yaml");
}

std::string errorIn(const std::string& text) {
  return errorOf<UsageError>([&] { read(text); });
}

constexpr const char* kAll = R"(hosts:
  - {name: node, count: 8, cores: 16, speed: 1.5, workers: 8, servers: 0}
  - {name: store, workers: 0, servers: 1, latency: 20us, bandwidth: 25Gbit}
links: {latency: 50us, bandwidth: 10 Gbit}
same-host: {latency: 1us, bandwidth: 8GB}
compute: {seconds-per-sample: 1ms, seconds-per-step: 0.25, jitter: 0.1, distribution: exponential}
stragglers:
  - {worker: 3, factor: 4, from: 10, until: 1m}
  - {host: node5, factor: 1.5}
failures:
  - {host: node5, at: 30s, back: 10s}
  - {worker: 2, at: 1h, back: never}
  - {mean-time-between: 2h, back: 90}
)";

ClusterModel all() {
  using Distribution = ComputeModel::Distribution;
  return {.hosts = {{.name = "node", .count = 8, .cores = 16, .speed = 1.5, .workers = 8, .servers = 0},
                    {.name = "store", .workers = 0, .servers = 1, .latency = 20e-6, .bandwidth = 25 * 125e6}},
          .links = {.latency = 50e-6, .bandwidth = 10 * 125e6},
          .sameHost = {.latency = 1e-6, .bandwidth = 8e9},
          .compute = {.secondsPerSample = 1e-3,
                      .secondsPerStep = 0.25,
                      .jitter = 0.1,
                      .distribution = Distribution::Exponential},
          .stragglers = {{.who = {.worker = 3}, .factor = 4, .from = 10, .until = 60},
                         {.who = {.worker = {}, .host = "node5"}, .factor = 1.5}},
          .failures = {{.who = {.worker = {}, .host = "node5"}, .at = 30, .back = 10},
                       {.who = {.worker = 2}, .at = 3600},
                       {.who = {}, .every = 7200, .back = 90}}};
}

TEST(ClusterFile, HasEveryField) {
  EXPECT_EQ(read(kAll), all());
}

TEST(ClusterFile, IsWrittenAsItIsRead) {
  for (const ClusterModel& model : {all(), ClusterModel{}})
    EXPECT_EQ(read(toYaml(model)), model) << toYaml(model);
}

TEST(ClusterFile, WhatIsLeftOutHasItsDefault) {
  EXPECT_EQ(read(""), ClusterModel{});
  EXPECT_EQ(read("links: {latency: 1ms}").links, (LinkModel{.latency = 1e-3, .bandwidth = 0}));
  EXPECT_EQ(read("links: {bandwidth: unlimited}"), ClusterModel{});
}

TEST(ClusterFile, ExamplesCanBeRead) {
  const std::filesystem::path folder = std::filesystem::path(COHORT_EXAMPLES_DIR) / "clusters";
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_NO_THROW(placeOn(readClusterFile(entry.path()), 64, 1, "x")) << entry.path();
    ++found;
  }
  EXPECT_GE(found, 2);
}

TEST(ClusterFile, WhatIsWrongIsToldWithItsPlace) {
  const std::pair<std::string, std::string> wrong[] = {
      {"host: []",
       "c.yaml:1:1: a cluster has no key 'host' (did you mean 'hosts'?); it has hosts, links, same-host, "
       "compute, "
       "stragglers, failures"},
      {"- a", "c.yaml:1:1: a cluster has the keys hosts, links"},
      {"links: {latency: 1}\nlinks: {latency: 2}",
       "c.yaml:2:1: 'links' is given a second time; the first is in line 1"},
      {"hosts: a", "c.yaml:1:8: 'hosts' is a list: '- {…}' a line"},
      {"hosts: [{count: 2}]", "c.yaml:1:9: a host has a 'name'"},
      {"hosts: [{name: a, count: 0}]", "c.yaml:1:26: 'count' is a whole number from 1 to 100000, not '0'"},
      {"hosts: [{name: a, cores: 1.5}]",
       "c.yaml:1:26: 'cores' is a whole number from 1 to 100000, not '1.5'"},
      {"hosts: [{name: a, speed: 0}]", "c.yaml:1:26: 'speed' is a number from 1e-06 to 1000000, not '0'"},
      {"hosts: [{name: a, count: 60000}, {name: b, count: 60000}]",
       "c.yaml:1:34: these are more than 100000 hosts"},
      {"links: {latency: 5 days}",
       "c.yaml:1:18: 'latency' is a time such as 50us, 2ms, 10s, 5m or 1h, not '5 days'"},
      {"links: {latency: -1}", "c.yaml:1:18: 'latency' is a time"},
      {"links: {latency: nan}", "c.yaml:1:18: 'latency' is a time"},
      {"links: {bandwidth: 10Gb}",
       "c.yaml:1:20: 'bandwidth' is a bandwidth such as 10Gbit, 1.25GB (in a second) or unlimited, not "
       "'10Gb'"},
      {"links: {bandwidth: 0}", "c.yaml:1:20: 'bandwidth' is a bandwidth"},
      {"compute: {distribution: gauss}",
       "c.yaml:1:25: 'distribution' is normal, uniform or exponential, not 'gauss'"},
      {"compute: {jitter: 0.3}",
       "c.yaml:1:10: a jitter of 0.3 would make some times negative: at most 0.2 with a normal distribution; "
       "uniform goes up to 0.57, exponential to 1"},
      {"stragglers: [{worker: 1, host: a}]", "c.yaml:1:14: give 'worker' or 'host', not both"},
      {"stragglers: [{worker: 1, from: 2, until: 2}]",
       "c.yaml:1:14: a straggler's 'until' comes after its 'from'"},
      {"failures: [{worker: 1}]", "c.yaml:1:12: a failure has a time: 'at', or 'mean-time-between'"},
      {"failures: [{at: 1, mean-time-between: 1}]", "c.yaml:1:12: a failure has a time"},
      {"failures: [{mean-time-between: 0}]", "c.yaml:1:12: a 'mean-time-between' is at least 1us"},
      {"failures: [{at: 1, back: maybe}]", "c.yaml:1:26: 'back' is a time"},
      {"links: [", "c.yaml:1:"},
      {"a: 1\n---\nb: 2", "c.yaml:2:1: here begins a second document; a cluster is one"}};
  for (const auto& [text, sentence] : wrong) {
    EXPECT_EQ(errorIn(text).substr(0, sentence.size()), sentence) << text << "\n" << errorIn(text);
  }
  EXPECT_EQ(errorOf<UsageError>([] { readClusterFile("/nowhere/c.yaml"); }),
            "there is no cluster file /nowhere/c.yaml");
}

}  // namespace
}  // namespace cohort
