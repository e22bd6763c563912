#include "train/layer_table.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/test_error.h"
#include "graph/model_builder.h"

namespace cohort {
namespace {

Graph smallNetwork() {
  ModelBuilder b({3, 8, 8}, 10);
  ValueId x = b.conv("conv1", b.input(), {.outputs = 16, .kernel = 3, .padding = Padding::same()});
  x = b.relu(b.batchNorm("norm1", x));
  x = b.dropout(b.maxPool(x, 2, 2), 0.5f);
  b.softmaxLoss("loss", b.dense("logits", x, {.outputs = 10}));
  return b.build();
}

TEST(LayerTable, TellsWhatEachLayerIsAndCostsOnPaper) {
  const LayerTable table = layerTable(compile(smallNetwork(), {.grainSize = 2}));
  std::vector<std::string> kinds;
  for (const LayerRow& row : table) kinds.push_back(row.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"conv", "norm", "activation", "pool", "dropout", "flatten",
                                             "dense", "loss"}));
  const LayerRow& conv = table[0];
  EXPECT_EQ(conv.name, "conv1");
  EXPECT_EQ(conv.operatorText, "conv 3x3/1 same 16");
  EXPECT_EQ(conv.output, "16x8x8");
  EXPECT_EQ(conv.parameters, 16 * 3 * 9 + 16);
  EXPECT_EQ(conv.multiplyAdds, 16 * 3 * 9 * 64);
  EXPECT_GE(conv.activationBytes, 2 * 16 * 64 * sizeof(float));
  EXPECT_FALSE(conv.kernels.empty());
  EXPECT_EQ(table[1].parameters, 2 * 16) << "running statistics are not learned";
  EXPECT_EQ(table[6].output, "10");
  EXPECT_EQ(table[6].parameters, 16 * 4 * 4 * 10 + 10);
  for (const LayerRow& row : table)
    EXPECT_EQ(row.forwardSeconds + row.backwardSeconds + row.updateSeconds, 0);
}

TEST(LayerTable, DividesTheLanesTimeByTheLanes) {
  const ExecutionPlan plan = compile(smallNetwork(), {.grainSize = 2});
  const std::size_t nodes = plan.graph().nodes.size();
  std::vector<NodeSeconds> first(nodes), second(nodes);
  first[0] = {.forward = 1, .backward = 4, .update = 0.5};
  second[0] = {.forward = 3, .backward = 2, .update = 0.25};
  second[6] = {.forward = 8};
  const std::vector<std::span<const NodeSeconds>> lanes = {first, second};
  const LayerTable table = layerTable(plan, lanes);
  EXPECT_EQ(table[0].forwardSeconds, 2);
  EXPECT_EQ(table[0].backwardSeconds, 3);
  EXPECT_EQ(table[0].updateSeconds, 0.375);
  EXPECT_EQ(table[6].forwardSeconds, 4);
  EXPECT_EQ(table[1].forwardSeconds, 0);
}

const LayerRow kRow{.name = "conv\"1",
                    .operatorText = "conv 3x3/1 16",
                    .kind = "conv",
                    .output = "16x8x7",
                    .parameters = 448,
                    .multiplyAdds = 27648,
                    .activationBytes = 8192,
                    .kernels = "jit | jit",
                    .forwardSeconds = 0.1,
                    .backwardSeconds = 1e-9,
                    .updateSeconds = 3};

TEST(LayerTable, ComesBackFromItsFile) {
  const LayerTable table{kRow,
                         {.name = "relu1", .operatorText = "relu", .kind = "activation", .output = "10"}};
  EXPECT_EQ(layersFromJson(toJson(table), "layers.json"), table);
  EXPECT_EQ(layersFromJson(toJson(LayerTable{}), "layers.json"), LayerTable{});
}

TEST(LayerTable, HasTheDocumentedKeys) {
  const nlohmann::json json = nlohmann::json::parse(toJson(LayerTable{kRow}));
  EXPECT_EQ(json, nlohmann::json::parse(R"([{
    "name": "conv\"1", "operator": "conv 3x3/1 16", "kind": "conv", "output": "16x8x7", "parameters": 448,
    "multiply_adds": 27648, "activation_bytes": 8192, "kernels": "jit | jit", "forward_s": 0.1,
    "backward_s": 1e-9, "update_s": 3.0}])"));
}

TEST(LayerTable, RefusesCountsThatAreNone) {
  for (const char* key : {"parameters", "multiply_adds", "activation_bytes"}) {
    for (const char* value : {"1e300", "0.5", "-1", "null", "18446744073709551616"}) {
      nlohmann::json json = nlohmann::json::parse(toJson(LayerTable{kRow}));
      json[0][key] = nlohmann::json::parse(value);
      EXPECT_THROW(layersFromJson(json.dump(), "layers.json"), IoError) << key << " " << value;
    }
  }
}

TEST(LayerTable, RefusesFilesThatAreSomethingElse) {
  nlohmann::json lacking = nlohmann::json::parse(toJson(LayerTable{kRow}));
  lacking[0].erase("kind");
  nlohmann::json wrong = nlohmann::json::parse(toJson(LayerTable{kRow}));
  wrong[0]["output"] = {1, 2};
  for (const std::string& text : {std::string(), std::string("{}"), std::string("[1]"), std::string("[{]"),
                                  lacking.dump(), wrong.dump()}) {
    EXPECT_MENTIONS(errorOf<IoError>([&] { layersFromJson(text, "runs/a/layers.json"); }),
                    "runs/a/layers.json")
        << text;
  }
}

}  // namespace
}  // namespace cohort
