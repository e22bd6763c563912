#include "cluster/hosts_file.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cohort {
namespace {

using Words = std::vector<std::string>;

std::vector<PlannedMember> parse(std::string_view text) {
  return parseHostsFile(text, "hosts");
}

std::string refusalOf(std::string_view text) {
  try {
    parse(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(HostsFile, NamesRolesPlacesAndCores) {
  const auto members = parse(
      "# a run\n"
      "a:2222\tps\r\n"
      "\n"
      "  b:2222   worker cores=0-1,4  # the chief\n"
      "b:2223 worker cores=2-3\n"
      "e evaluator");
  ASSERT_EQ(members.size(), 4u);
  EXPECT_EQ(members[0].place, (Member{.role = Role::Server, .index = 0, .host = "a", .port = 2222}));
  EXPECT_EQ(members[1].place, (Member{.role = Role::Worker, .index = 0, .host = "b", .port = 2222}));
  EXPECT_EQ(members[1].cores, (std::vector<int>{0, 1, 4}));
  EXPECT_EQ(members[2].place,
            (Member{.role = Role::Worker, .index = 1, .host = "b", .localIndex = 1, .port = 2223}));
  EXPECT_EQ(members[3].place, (Member{.role = Role::Evaluator, .index = 0, .host = "e"}));
  EXPECT_TRUE(members[3].cores.empty());
}

TEST(HostsFile, ServersComeFirstAndEachRoleKeepsItsOrder) {
  const auto members = parse("n[1-2]:7 worker cores=0\np:7 ps\nm:7 worker\nq:7 ps\n[::1]:7 worker\n");
  Words names;
  for (const PlannedMember& member : members) names.push_back(nameOf(member.place) + " " + member.place.host);
  EXPECT_EQ(names,
            (Words{"server 0 p", "server 1 q", "worker 0 n1", "worker 1 n2", "worker 2 m", "worker 3 ::1"}));
  const auto shared = parse("a:1 worker\na:2 ps\n");
  EXPECT_EQ(shared[0].place.localIndex, 0) << "as those count who read the flags";
  EXPECT_EQ(shared[1].place.localIndex, 1);
  EXPECT_EQ(members[3].cores, std::vector<int>{0}) << "one line, two hosts, the same cores";
}

TEST(HostsFile, BadLinesAreRefusedByNumber) {
  for (const auto& [text, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"", "hosts names no worker; add a line such as node1:2222 worker"},
           {"p:1 ps\n", "hosts names no worker"},
           {"a:1\n", "line 1 of hosts has 'a:1' without a role; write HOST:PORT and ps, worker or evaluator"},
           {"\n\na:1 server\n", "line 3 of hosts has the role 'server'; roles are ps, worker and evaluator"},
           {"a worker\n", "line 1 of hosts has 'a' without a port; write HOST:PORT"},
           {"a:x worker\n", "line 1 of hosts has 'a:x', whose port is 'x'"},
           {"a:1,b:1 worker\n", "line 1 of hosts has several hosts in 'a:1,b:1'"},
           {"n[1-:1 worker\n", "line 1 of hosts 'n[1-:1' is no host list"},
           {"-oProxyCommand=x:1 worker\n", "line 1 of hosts has '-oProxyCommand=x:1', where no host's name"},
           {"a:1 worker cores\n", "line 1 of hosts has 'cores' after the role, where only cores=0-3 may"},
           {"a:1 worker cores=\n", "cores= in line 1 of hosts takes numbers"},
           {"a:1 worker cores=3-1\n", "cores= in line 1 of hosts: the range 3-1 runs backwards"},
           {"a:1 worker cores=1 cores=2\n", "line 1 of hosts has cores= twice; leave one out"},
           {"a:1 worker\na:1 ps\n", "line 2 of hosts has a:1, as line 1 has; give each process a port"},
           {"a:1 worker cores=0-3\na:2 worker cores=3\n",
            "line 2 of hosts has core 3 of a, as line 1 has; give each process cores of its own"},
           {"a:1 worker\ne:2 evaluator\n", "line 2 of hosts has the evaluator 'e:2'; write one host's name"},
           {"a:1 worker\ne evaluator\nf evaluator\n", "line 3 of hosts has a second evaluator"},
           {"n[1-70000]:1 worker\n", "names more than 65536 hosts"},
       }) {
    EXPECT_NE(refusalOf(text).find(sentence), std::string::npos) << text << "\n" << refusalOf(text);
  }
}

TEST(HostsFile, NoHostIsTakenForAnOptionOfSsh) {
  for (const char* text : {"-v:1 worker\n", "a:1 worker\n-v evaluator\n", "-n[1-2]:1 worker\n"}) {
    EXPECT_NE(refusalOf(text).find("begins with '-'"), std::string::npos) << refusalOf(text);
  }
}

TEST(PlaceFlags, GiveAllTheSameListsAndEachItsPlace) {
  const auto members = parse("p:7 ps\na:7 worker cores=0-3\n[::1]:8 worker\ne evaluator\n");
  EXPECT_EQ(placeFlags(members, 0), (Words{"--ps-hosts", "p:7", "--worker-hosts", "a:7,[::1]:8", "--job-name",
                                           "ps", "--task-index", "0"}));
  EXPECT_EQ(placeFlags(members, 1), (Words{"--ps-hosts", "p:7", "--worker-hosts", "a:7,[::1]:8", "--job-name",
                                           "worker", "--task-index", "0", "--devices-visible", "0-3"}));
  EXPECT_EQ(placeFlags(members, 3)[5], "evaluator");
  const auto alone = parse("a:7 worker\n");
  EXPECT_EQ(placeFlags(alone, 0),
            (Words{"--worker-hosts", "a:7", "--job-name", "worker", "--task-index", "0"}));
}

}  // namespace
}  // namespace cohort
