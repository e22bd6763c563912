// A desk computes what workers compute, to the bit.
#include "train/desk.h"

#include <gtest/gtest.h>

#include "base/test_directory.h"
#include "engine/instruction_set.h"
#include "tests/training_runs.h"
#include "train/run_setup.h"

namespace cohort {
namespace {

class DeskOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Networks, DeskOf, testing::Values("mnist-fc", "mnist-cnn", "cifar-cnn"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(DeskOf, StepsAsARunDoes) {
  const std::string network = GetParam();
  const bool isColoured = network == "cifar-cnn";
  const GivenSettings settings{{"network", {network}},
                               {"dataset", {"synthetic"}},
                               {"channels", {isColoured ? "3" : "1"}},
                               {"image-size", {isColoured ? "24" : "12"}},
                               {"classes", {"10"}},
                               {"samples", {"100"}},
                               {"batch-size", {"12"}},
                               {"grains", {"6"}},
                               {"test-samples", {"40"}},
                               {"threads", {"2"}},
                               {"optimizer", {"momentum"}},
                               {"train-steps", {"6"}}};
  const TestDirectory job;
  const RunSummary run = train(job / "job", settings);

  const RunContext context;
  RunConfig config = resolveConfig(context.networks, {}, settings);
  useInstructionSet(bestInstructionSet());
  const RunData data = openData(context, config);
  const BatchSource batches(
      *data.train,
      {.batchSize = config.batchSize, .grains = 6, .seed = config.seed, .shuffle = config.shuffle});
  Desk desk(context, config, batches);
  TrainingState state(desk.layout(), shardOptions(config, data.train->size()), config.seed, 1);
  for (Step step = 0; step < 6; ++step) {
    const Desk::Result& result = desk.compute({step, {0, 6}}, state.weights.span());
    ASSERT_EQ(result.gradients.size(), 1u);
    ASSERT_EQ(result.losses.size(), 6u);
    state.shards.front().update(0, result.gradients.front().sums, step);
  }
  EXPECT_EQ(weightsHash(state.weights.span()), run.weightsHash);
  EXPECT_EQ(desk.evaluate(*data.evaluation, state.shards.front().evaluationWeights()).loss,
            run.evaluation->loss);
}

// The tree's nodes of a part of the grains, added up, are the whole batch's.
TEST(Desk, PartsAreNodesOfTheStepsTree) {
  const GivenSettings settings{{"network", {"mnist-fc"}}, {"dataset", {"synthetic"}}, {"samples", {"100"}},
                               {"batch-size", {"12"}},    {"grains", {"6"}},          {"train-steps", {"1"}}};
  const RunContext context;
  RunConfig config = resolveConfig(context.networks, {}, settings);
  useInstructionSet(bestInstructionSet());
  const RunData data = openData(context, config);
  const BatchSource batches(*data.train, {.batchSize = 12, .grains = 6, .seed = config.seed});
  Desk desk(context, config, batches);
  const TrainingState state(desk.layout(), shardOptions(config, data.train->size()), config.seed, 1);
  const GrainTree tree(6);
  const GrainTree::Node& root = tree.node(0);
  const auto sums = [&](int node) {
    const Desk::Result& part = desk.compute({0, tree.node(node).grains}, state.weights.span());
    EXPECT_EQ(part.gradients.size(), 1u);
    EXPECT_EQ(part.gradients.front().node, node);
    return std::vector<float>(part.gradients.front().sums.begin(), part.gradients.front().sums.end());
  };
  std::vector<float> added = sums(root.left);
  const std::vector<float> right = sums(root.right);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += right[i];
  EXPECT_EQ(added, sums(0));
}

}  // namespace
}  // namespace cohort
