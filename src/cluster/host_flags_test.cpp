#include "cluster/host_flags.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

HostFlags flagsOf(const char* job, int index) {
  return {.psHosts = "p:2222", .workerHosts = "n[1-2]:2222,p:2223", .jobName = job, .taskIndex = index};
}

std::string refusal(const HostFlags& flags) {
  return errorOf<UsageError>([&] { clusterOf(flags); });
}

TEST(HostFlags, NameServersAndWorkersInTheirOrder) {
  const std::vector<Member> members = {
      {.role = Role::Server, .index = 0, .host = "p", .port = 2222},
      {.role = Role::Worker, .index = 0, .host = "n1", .port = 2222},
      {.role = Role::Worker, .index = 1, .host = "n2", .port = 2222},
      {.role = Role::Worker, .index = 2, .host = "p", .localIndex = 1, .port = 2223}};
  EXPECT_EQ(clusterOf(flagsOf("worker", 2)), (ClusterMap{.members = members, .me = 3}));
  EXPECT_EQ(clusterOf(flagsOf("ps", 0)), (ClusterMap{.members = members, .me = 0}));
}

TEST(HostFlags, NeedNoServers) {
  for (const std::optional<std::string>& none :
       {std::optional<std::string>(), std::optional<std::string>("")}) {
    const HostFlags flags{.psHosts = none, .workerHosts = "a:1", .jobName = "worker", .taskIndex = 0};
    EXPECT_EQ(clusterOf(flags).members.size(), 1u);
  }
}

TEST(HostFlags, SayWhichOfThemToChange) {
  EXPECT_FALSE(HostFlags{}.areGiven());
  EXPECT_TRUE(HostFlags{.taskIndex = 0}.areGiven());
  EXPECT_BEGINS(refusal({.psHosts = "a:1", .jobName = "ps", .taskIndex = 0}),
                "give --worker-hosts HOST:PORT,...");
  EXPECT_BEGINS(refusal({.workerHosts = "", .jobName = "worker", .taskIndex = 0}), "give --worker-hosts");
  EXPECT_BEGINS(refusal({.workerHosts = "a:1", .taskIndex = 0}), "give --job-name ps, worker or evaluator");
  EXPECT_EQ(refusal({.workerHosts = "a:1", .jobName = "chief", .taskIndex = 0}),
            "--job-name is ps, worker or evaluator, not 'chief'");
  EXPECT_EQ(refusal({.workerHosts = "a:1", .jobName = "worker"}),
            "give --task-index: which of --worker-hosts this process is");
  EXPECT_EQ(refusal({.workerHosts = "a:1", .jobName = "ps", .taskIndex = 0}),
            "--job-name is ps, and --ps-hosts names none; give it HOST:PORT,...");
  EXPECT_EQ(refusal(flagsOf("ps", 1)), "--task-index 1 is not in --ps-hosts, which has 0 to 0");
  EXPECT_EQ(refusal(flagsOf("worker", 3)), "--task-index 3 is not in --worker-hosts, which has 0 to 2");
  EXPECT_EQ(refusal(flagsOf("worker", -1)), "--task-index -1 is not in --worker-hosts, which has 0 to 2");
  EXPECT_EQ(refusal({.psHosts = "a:1", .workerHosts = "b:1,a:1", .jobName = "ps", .taskIndex = 0}),
            "the cluster of --ps-hosts and --worker-hosts has a:1 twice, for server 0 and worker 1; give "
            "each process "
            "an address of its own");
  EXPECT_BEGINS(refusal({.psHosts = "a", .workerHosts = "b:1", .jobName = "ps", .taskIndex = 0}),
                "--ps-hosts has 'a' without a port");
}

}  // namespace
}  // namespace cohort
