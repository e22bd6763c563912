#include "cluster/cluster_map.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(ClusterMap, IsATableWithAMarkForThisProcess) {
  const ClusterMap cluster{
      .members = {{.role = Role::Server, .index = 0, .host = "n1", .port = 7000, .rank = 0},
                  {.role = Role::Worker, .index = 0, .host = "node-12", .rank = 1},
                  {.role = Role::Worker, .index = 1, .host = "node-12", .localIndex = 1, .rank = 2}},
      .me = 2};
  EXPECT_EQ(toText(cluster),
            "  member    rank  host     local  address\n"
            "  server 0  0     n1       0      n1:7000\n"
            "  worker 0  1     node-12  0\n"
            "* worker 1  2     node-12  1");
  EXPECT_EQ(cluster.self().rank, 2);
  EXPECT_EQ(cluster.count(Role::Worker), 2u);
  EXPECT_EQ(cluster.count(Role::Evaluator), 0u);
}

TEST(ClusterMap, HasNoColumnsForWhatNobodyHas) {
  EXPECT_EQ(toText(oneMachine("vm")),
            "  member    host  local\n"
            "* worker 0  vm    0");
}

TEST(ClusterMap, IsComparable) {
  ClusterMap other = oneMachine("vm");
  EXPECT_EQ(other, oneMachine("vm"));
  other.members[0].port = 1;
  EXPECT_NE(other, oneMachine("vm"));
}

}  // namespace
}  // namespace cohort
