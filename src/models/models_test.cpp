#include <algorithm>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "models/network.h"

namespace cohort {
namespace {

Graph buildAt(std::string_view name, int size, int classes) {
  const Network network = builtinNetworks().find(name);
  return network.build({network.recipe.channels, size, size}, classes);
}

Graph buildDefault(std::string_view name) {
  const Recipe recipe = builtinNetworks().find(name).recipe;
  return buildAt(name, recipe.imageSize, recipe.classes);
}

std::size_t weightsAt(std::string_view name, int size, int classes) {
  return parameterLayout(buildAt(name, size, classes)).weightCount();
}

std::size_t weights(std::string_view name) {
  return parameterLayout(buildDefault(name)).weightCount();
}

Shape inputOf(const Graph& graph, std::string_view node) {
  const auto found = std::ranges::find(graph.nodes, node, &Node::name);
  if (found == graph.nodes.end()) return {};
  return graph.shapeOf(found->inputs.front());
}

Shape outputOf(const Graph& graph, std::string_view node) {
  const auto found = std::ranges::find(graph.nodes, node, &Node::name);
  if (found == graph.nodes.end()) return {};
  return graph.shapeOf(found->output);
}

TEST(ParameterCount, MnistNetworks) {
  // 784 * 100 + 100, 100 * 10 + 10
  EXPECT_EQ(weights("mnist-fc"), 78'500u + 1'010u);
  // 25 * 32 + 32, 32 * 25 * 64 + 64, 7 * 7 * 64 * 1024 + 1024, 1024 * 10 + 10
  EXPECT_EQ(weights("mnist-cnn"), 832u + 51'264u + 3'212'288u + 10'250u);
}

TEST(ParameterCount, CifarNetworks) {
  // 75 * 64 + 64, 1600 * 64 + 64, 6 * 6 * 64 * 384 + 384, 384 * 192 + 192, 192 * 10 + 10
  EXPECT_EQ(weights("cifar-cnn"), 4'864u + 102'464u + 885'120u + 73'920u + 1'930u);
}

TEST(ParameterCount, CifarResidualNetworks) {
  // Of 6n + 2 layers: conv1 27 * 16; 2n convolutions of 9 * 16 * 16; 9 * 16 * 32 and 2n - 1 of 9 * 32 * 32;
  // 9 * 32 * 64 and 2n - 1 of 9 * 64 * 64; a scale and a shift for 16 (2n + 1) + 32 * 2n + 64 * 2n channels;
  // fc 64 * 10 + 10.
  const auto formula = [](std::size_t n) {
    return 432 + 2 * n * 2304 + 4608 + (2 * n - 1) * 9216 + 18432 + (2 * n - 1) * 36864 +
           2 * (16 * (2 * n + 1) + 32 * 2 * n + 64 * 2 * n) + 650;
  };
  EXPECT_EQ(formula(3), 269'722u);
  EXPECT_EQ(weights("resnet20"), formula(3));
  EXPECT_EQ(weights("resnet32"), formula(5));
  EXPECT_EQ(weights("resnet44"), formula(7));
  EXPECT_EQ(weights("resnet56"), formula(9));
  EXPECT_EQ(weights("resnet110"), formula(18));
  EXPECT_EQ(weights("resnet26"), formula(4));
}

TEST(ParameterCount, AlexNets) {
  // 363 * 64 + 64, 1600 * 192 + 192, 1728 * 384 + 384, 3456 * 256 + 256, 2304 * 256 + 256,
  // 9216 * 4096 + 4096, 4096 * 4096 + 4096, 4096 * 1000 + 1000
  const std::size_t alexnet =
      23'296 + 307'392 + 663'936 + 884'992 + 590'080 + 37'752'832 + 16'781'312 + 4'097'000;
  EXPECT_EQ(alexnet, 61'100'840u);
  EXPECT_EQ(weights("alexnet"), alexnet);
  EXPECT_EQ(weightsAt("alexnet", 224, 1000), alexnet);
  // 363 * 96 + 96, 1200 * 256 + 256, 2304 * 384 + 384, 1728 * 384 + 384, 1728 * 256 + 256, the same fc
  EXPECT_EQ(weights("alexnet-lrn"),
            34'944u + 307'456 + 885'120 + 663'936 + 442'624 + 37'752'832 + 16'781'312 + 4'097'000);
  EXPECT_EQ(weights("alexnet-lrn"), 60'965'224u);
}

TEST(ParameterCount, OverFeat) {
  // 363 * 96 + 96, 2400 * 256 + 256, 2304 * 512 + 512, 4608 * 1024 + 1024, 9216 * 1024 + 1024,
  // 36864 * 3072 + 3072, 3072 * 4096 + 4096, 4096 * 1000 + 1000
  EXPECT_EQ(weights("overfeat"),
            34'944u + 614'656 + 1'180'160 + 4'719'616 + 9'438'208 + 113'249'280 + 12'587'008 + 4'097'000);
  EXPECT_EQ(weights("overfeat"), 145'920'872u);
}

TEST(ParameterCount, VggNetworks) {
  // fc: 25088 * 4096 + 4096, 4096 * 4096 + 4096, 4096 * 1000 + 1000
  const std::size_t dense = 102'764'544 + 16'781'312 + 4'097'000;
  // 27 * 64 + 64, 576 * 128 + 128, 1152 * 256 + 256, 2304 * 256 + 256, 2304 * 512 + 512, 3 of 4608 * 512 +
  // 512
  const std::size_t vgg11 = 1'792 + 73'856 + 295'168 + 590'080 + 1'180'160 + 3 * 2'359'808;
  EXPECT_EQ(weights("vgg11"), vgg11 + dense);
  EXPECT_EQ(weights("vgg11"), 132'863'336u);
  // One more each of 576 * 64 + 64, 1152 * 128 + 128, 2304 * 256 + 256, and two of 4608 * 512 + 512
  const std::size_t vgg16 = vgg11 + 36'928 + 147'584 + 590'080 + 2 * 2'359'808;
  EXPECT_EQ(weights("vgg16"), vgg16 + dense);
  EXPECT_EQ(weights("vgg16"), 138'357'544u);
  // One more of 2304 * 256 + 256, two of 4608 * 512 + 512
  EXPECT_EQ(weights("vgg19"), vgg16 + 590'080 + 2 * 2'359'808 + dense);
  // At 256 pixels fc6 has 8 * 8 * 512 inputs.
  EXPECT_EQ(weightsAt("vgg11", 256, 1000), vgg11 + dense + (32'768 - 25'088) * std::size_t{4096});
}

TEST(ParameterCount, GoogLeNet) {
  // An inception with i inputs: i * a + a, i * r3 + r3, 9 * r3 * b + b, i * r5 + r5, 25 * r5 * c + c, i * p +
  // p.
  const auto inception = [](std::size_t i, std::size_t a, std::size_t r3, std::size_t b, std::size_t r5,
                            std::size_t c, std::size_t p) {
    return (i + 1) * (a + r3 + r5 + p) + (9 * r3 + 1) * b + (25 * r5 + 1) * c;
  };
  const std::size_t trunk =
      (147 + 1) * 64 + (64 + 1) * 64 + (576 + 1) * 192 + inception(192, 64, 96, 128, 16, 32, 32) +
      inception(256, 128, 128, 192, 32, 96, 64) + inception(480, 192, 96, 208, 16, 48, 64) +
      inception(512, 160, 112, 224, 24, 64, 64) + inception(512, 128, 128, 256, 24, 64, 64) +
      inception(512, 112, 144, 288, 32, 64, 64) + inception(528, 256, 160, 320, 32, 128, 128) +
      inception(832, 256, 160, 320, 32, 128, 128) + inception(832, 384, 192, 384, 48, 128, 128) +
      (1024 + 1) * 1000;
  EXPECT_EQ(trunk, 6'998'552u);
  // A head with i inputs: i * 128 + 128, 2048 * 1024 + 1024, 1024 * 1000 + 1000.
  const auto head = [](std::size_t i) { return (i + 1) * 128 + 2'098'176 + 1'025'000; };
  EXPECT_EQ(weights("googlenet"), trunk + head(512) + head(528));
  EXPECT_EQ(weights("googlenet"), 13'378'280u);
}

TEST(ParameterCount, ResNet50) {
  // A convolution of f weights per output comes with a scale and a shift: (f + 2) * outputs. A bottleneck of
  // width w with i inputs has (i + 2) w, (9 w + 2) w, (w + 2) 4 w, and (i + 2) 4 w for a projection.
  const auto stage = [](std::size_t inputs, std::size_t w, std::size_t blocks) {
    const auto body = [w](std::size_t i) { return (i + 2) * w + (9 * w + 2) * w + (w + 2) * 4 * w; };
    return body(inputs) + (inputs + 2) * 4 * w + (blocks - 1) * body(4 * w);
  };
  const std::size_t total = (147 + 2) * 64 + stage(64, 64, 3) + stage(256, 128, 4) + stage(512, 256, 6) +
                            stage(1024, 512, 3) + (2048 + 1) * 1000;
  EXPECT_EQ(weights("resnet50"), total);
  EXPECT_EQ(total, 25'557'032u);
}

TEST(Networks, ReachTheirClassifiersWithTheShapesOfTheirTables) {
  EXPECT_EQ(inputOf(buildDefault("mnist-cnn"), "fc1"), (Shape{7 * 7 * 64, 1, 1}));
  EXPECT_EQ(inputOf(buildDefault("cifar-cnn"), "fc3"), (Shape{6 * 6 * 64, 1, 1}));
  EXPECT_EQ(outputOf(buildDefault("resnet20"), "block3_3_conv2"), (Shape{64, 8, 8}));
  EXPECT_EQ(outputOf(buildDefault("alexnet"), "conv1"), (Shape{64, 62, 62}));
  EXPECT_EQ(outputOf(buildAt("alexnet", 224, 1000), "conv1"), (Shape{64, 55, 55}));
  EXPECT_EQ(inputOf(buildDefault("alexnet"), "fc6"), (Shape{9216, 1, 1}));
  EXPECT_EQ(inputOf(buildDefault("alexnet-lrn"), "fc6"), (Shape{9216, 1, 1}));
  EXPECT_EQ(inputOf(buildDefault("overfeat"), "fc6"), (Shape{36864, 1, 1}));
  EXPECT_EQ(inputOf(buildDefault("vgg16"), "fc6"), (Shape{25088, 1, 1}));
  EXPECT_EQ(outputOf(buildDefault("googlenet"), "inception_3a_1x1"), (Shape{64, 28, 28}));
  EXPECT_EQ(outputOf(buildDefault("googlenet"), "aux1_conv"), (Shape{128, 4, 4}));
  EXPECT_EQ(outputOf(buildDefault("googlenet"), "inception_5b_1x1"), (Shape{384, 7, 7}));
  EXPECT_EQ(outputOf(buildDefault("resnet50"), "block4_3_conv3"), (Shape{2048, 7, 7}));
}

TEST(Networks, HaveAsManyLogitsAsClasses) {
  for (const std::string& name : builtinNetworks().names()) {
    const Graph graph = buildAt(name, builtinNetworks().find(name).recipe.imageSize, 7);
    ASSERT_TRUE(std::holds_alternative<SoftmaxLoss>(graph.nodes.back().op)) << name;
    EXPECT_EQ(inputOf(graph, "loss"), (Shape{7, 1, 1})) << name;
    EXPECT_TRUE(std::get<SoftmaxLoss>(graph.nodes.back().op).evaluated) << name;
  }
}

TEST(Networks, GoogLeNetHasTwoAuxiliaryLossesThatAreNotEvaluated) {
  std::vector<SoftmaxLoss> losses;
  for (const Node& node : buildDefault("googlenet").nodes) {
    if (const auto* loss = std::get_if<SoftmaxLoss>(&node.op)) losses.push_back(*loss);
  }
  ASSERT_EQ(losses.size(), 3u);
  const SoftmaxLoss auxiliary{.weight = 0.3f, .evaluated = false};
  EXPECT_EQ(losses[0], auxiliary);
  EXPECT_EQ(losses[1], auxiliary);
  EXPECT_EQ(losses[2], SoftmaxLoss{});
}

TEST(Networks, MnistFcSumsItsLoss) {
  const Graph graph = buildDefault("mnist-fc");
  EXPECT_EQ(std::get<SoftmaxLoss>(graph.nodes.back().op).reduction, SoftmaxLoss::Reduction::Sum);
}

TEST(Networks, ResidualNetworksTakeImagesOfOddSize) {
  EXPECT_EQ(outputOf(buildAt("resnet20", 31, 10), "block3_1_conv1"), (Shape{64, 8, 8}));
}

TEST(Networks, ImagesThatAreTooSmallAreRefusedWithTheLayerThatDoesNotFit) {
  EXPECT_EQ(errorOf<UsageError>([] { buildAt("alexnet", 62, 10); }),
            "layer pool13 (max-pool 3/2) does not fit its 2x2 input; use larger images");
  EXPECT_NO_THROW(buildAt("alexnet", 63, 10));
  for (const char* name : {"mnist-cnn", "alexnet-lrn", "overfeat", "vgg11", "vgg19", "googlenet"}) {
    EXPECT_MENTIONS(errorOf<UsageError>([&] { buildAt(name, 3, 10); }), "; use larger images") << name;
  }
}

TEST(Recipes, CutTheirBatchIntoWholeGrains) {
  for (const std::string& name : builtinNetworks().names()) {
    const Recipe recipe = builtinNetworks().find(name).recipe;
    EXPECT_EQ(recipe.batchSize % recipe.grains, 0) << name;
    EXPECT_GE(recipe.batchSize, recipe.grains) << name;
  }
}

TEST(Recipes, DescribeEveryNetworkInOneLine) {
  for (const std::string& name : builtinNetworks().names()) {
    const std::string description = builtinNetworks().find(name).description;
    EXPECT_FALSE(description.empty()) << name;
    EXPECT_LE(description.size(), 70u) << name;
  }
}

TEST(Registry, ListsEveryNetworkOnce) {
  const std::vector<std::string> names = builtinNetworks().names();
  EXPECT_EQ(names,
            (std::vector<std::string>{"mnist-fc", "mnist-cnn", "cifar-cnn", "resnet20", "resnet32",
                                      "resnet44", "resnet56", "resnet110", "alexnet", "alexnet-lrn",
                                      "overfeat", "vgg11", "vgg16", "vgg19", "googlenet", "resnet50"}));
}

TEST(Registry, OffersTheNearestNameForAnUnknownOne) {
  const std::string message = errorOf<UsageError>([] { builtinNetworks().find("alexnt"); });
  EXPECT_EQ(
      message,
      "there is no network called 'alexnt'; did you mean 'alexnet'? The networks are: mnist-fc, mnist-cnn, "
      "cifar-cnn, resnet20, resnet32, resnet44, resnet56, resnet110, alexnet, alexnet-lrn, overfeat, vgg11, "
      "vgg16, vgg19, googlenet, resnet50, resnetN with N = 6n + 2");
  EXPECT_MENTIONS(errorOf<UsageError>([] { builtinNetworks().find("vgg13"); }), "did you mean 'vgg1");
  EXPECT_MENTIONS(errorOf<UsageError>([] { builtinNetworks().find("resnet"); }), "did you mean 'resnet");
  EXPECT_MENTIONS(errorOf<UsageError>([] { builtinNetworks().find(""); }), "The networks are");
}

TEST(Registry, RefusesAResidualDepthThatDoesNotExistWithTheNearestThatDo) {
  const auto message = [](const char* name) {
    return errorOf<UsageError>([&] { builtinNetworks().find(name); });
  };
  EXPECT_EQ(
      message("resnet21"),
      "there is no network resnet21: a CIFAR residual network has 6n + 2 layers; use resnet20 or resnet26");
  // resnet50 is another network.
  EXPECT_MENTIONS(message("resnet49"), "use resnet44 or resnet56");
  EXPECT_MENTIONS(message("resnet2"), "use resnet8 or deeper");
  EXPECT_MENTIONS(message("resnet99999999"), "use resnet1202 or shallower");
  EXPECT_MENTIONS(message("resnet020"), "there is no network called");
  EXPECT_MENTIONS(message("resnet20x"), "there is no network called");
}

TEST(Registry, FindsAnyResidualDepthOfTheForm6nPlus2) {
  EXPECT_EQ(builtinNetworks().find("resnet8").name, "resnet8");
  EXPECT_EQ(builtinNetworks().find("resnet1202").recipe.imageSize, 32);
}

TEST(Registry, TakesANetworkOfTheUser) {
  NetworkRegistry registry = builtinNetworks();
  registry.add({.name = "mine", .build = registry.find("mnist-fc").build});
  EXPECT_EQ(registry.find("mine").build({1, 28, 28}, 10), buildDefault("mnist-fc"));
  EXPECT_EQ(errorOf<UsageError>([&] { registry.add(registry.find("mine")); }),
            "two networks are called mine; give one of them another name");
}

}  // namespace
}  // namespace cohort
