// In a file of its own: it replaces the allocation functions of the whole test program.

#include <gtest/gtest.h>

#include "base/test_allocations.h"
#include "optim/shard.h"

namespace cohort {
namespace {

TEST(Shard, AllocatesNothingInAnUpdate) {
  ParameterSpec statistic{
      .name = "mean", .shape = {5}, .initializer = {}, .kind = ParameterKind::RunningStatistic};
  const ParameterLayout layout({{.name = "weight", .shape = {7, 11}, .initializer = {}}, statistic});
  const std::vector<float> gradient(layout.size(), 0.5f);
  const Schedule schedule = parseSchedule("warmup:3+piecewise:1=0.5,2=0.25", {.samples = 10, .batch = 1});
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam"}) {
    OptimizerOptions options;
    options.kind = parseOptimizer(name);
    options.averageDecay = 0.9;
    options.rules = {parseParamRule("weight:lr=2")};
    std::vector<float> weights(layout.size(), 1.0f);
    const long atStart = allocations;
    Shard shard(layout, {.optimizer = options, .schedule = schedule}, weights);
    const long before = allocations;
    EXPECT_GT(before, atStart) << "the counter counts";
    for (Step step = 0; step < 30; ++step) shard.update(0, gradient, step);
    EXPECT_EQ(allocations - before, 0) << name;
  }
}

}  // namespace
}  // namespace cohort
