// ReLU, concat, add and flatten, and the ways in which a value's readers share it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/reference/engine_check.h"

namespace cohort {
namespace {

using reference::Body;
using reference::networkAround;
using reference::NetworkCase;

ValueId narrowTo(ModelBuilder& b, const char* name, ValueId x, int channels) {
  return b.conv(name, x, {.outputs = channels});
}

std::vector<NetworkCase> concatCases() {
  std::vector<NetworkCase> cases;
  for (const auto& widths : std::vector<std::vector<int>>{
           {16, 32}, {8, 8}, {8, 16, 5}, {5, 8}, {3, 5, 7}, {1, 1}, {33, 16}, {16, 16, 10}, {24, 8}}) {
    const Body body = [&](ModelBuilder& b, ValueId x) {
      std::vector<ValueId> parts;
      for (const int width : widths) {
        parts.push_back(narrowTo(b, fmt::format("part{}", parts.size()).c_str(), x, width));
      }
      parts.push_back(x);
      return b.concat(parts);
    };
    cases.push_back({.name = fmt::format("widths_{}", fmt::join(widths, "_")),
                     .graph = networkAround({6, 3, 4}, body),
                     .samples = 1 + static_cast<std::int64_t>(widths.size()) % 3});
  }
  return cases;
}

std::vector<NetworkCase> addCases() {
  std::vector<NetworkCase> cases;
  for (const auto& widths : std::vector<std::vector<int>>{{16, 16},
                                                          {8, 8, 8},
                                                          {5, 5},
                                                          {33, 33, 33},
                                                          {16, 8},
                                                          {32, 16},
                                                          {64, 32, 16},
                                                          {10, 5},
                                                          {24, 16, 24},
                                                          {33, 16},
                                                          {17, 8, 1}}) {
    for (const bool relu : {false, true}) {
      const Body body = [&](ModelBuilder& b, ValueId x) {
        std::vector<ValueId> parts;
        for (const int width : widths) {
          parts.push_back(narrowTo(b, fmt::format("part{}", parts.size()).c_str(), x, width));
        }
        const ValueId sum = b.add(parts);
        return relu ? b.relu(sum) : sum;
      };
      cases.push_back({.name = fmt::format("widths_{}_relu{}", fmt::join(widths, "_"), relu ? 1 : 0),
                       .graph = networkAround({6, 3, 4}, body),
                       .samples = relu ? 1 : 3});
    }
  }
  return cases;
}

// Values with several readers, aliases, and work in place: where a compiler goes wrong.
std::vector<NetworkCase> sharingCases() {
  const auto plus = [](int kernel) {
    return Conv{.outputs = 8, .kernel = kernel, .padding = Padding::same()};
  };
  const std::vector<std::pair<const char*, Body>> bodies{
      {"added_to_itself",
       [](ModelBuilder& b, ValueId x) {
         return b.add({x, x});
       }},
      {"thrice_the_same",
       [](ModelBuilder& b, ValueId x) {
         return b.add({x, x, x});
       }},
      {"concat_with_itself",
       [](ModelBuilder& b, ValueId x) {
         return b.concat({x, x});
       }},
      {"relu_twice", [](ModelBuilder& b, ValueId x) { return b.relu(b.relu(x)); }},
      {"relu_of_concat",
       [](ModelBuilder& b, ValueId x) {
         return b.relu(b.concat({x, b.lrn(x, {.alpha = 0.3f})}));
       }},
      {"relu_added_to",
       [=](ModelBuilder& b, ValueId x) {
         return b.add({b.relu(b.conv("c", x, plus(3))), b.conv("d", x, plus(1))});
       }},
      {"relu_added_to_by_something_else",
       [=](ModelBuilder& b, ValueId x) {
         return b.add({b.conv("d", x, plus(1)), b.relu(b.conv("c", x, plus(3)))});
       }},
      {"flat_relu_added_to",
       [=](ModelBuilder& b, ValueId x) {
         return b.add({b.flatten(b.relu(b.conv("c", x, plus(3)))), b.flatten(b.conv("d", x, plus(1)))});
       }},
      {"relu_without_dropout_added_to",
       [=](ModelBuilder& b, ValueId x) {
         return b.add({b.dropout(b.relu(b.conv("c", x, plus(3))), 0.0f), b.conv("d", x, plus(1))});
       }},
      {"relu_with_dropout_added_to",
       [=](ModelBuilder& b, ValueId x) {
         const ValueId flat = b.dense("f", x, {.outputs = 24});
         return b.add({b.dropout(b.relu(flat), 0.3f), b.dense("g", x, {.outputs = 24})});
       }},
      {"sum_relu_added_to",
       [=](ModelBuilder& b, ValueId x) {
         const ValueId sum = b.relu(b.add({b.conv("c", x, plus(3)), b.conv("d", x, plus(1))}));
         return b.add({sum, b.conv("e", x, plus(1))});
       }},
      {"residual_blocks",
       [=](ModelBuilder& b, ValueId x) {
         for (int i = 0; i < 2; ++i) {
           const ValueId in = b.relu(x);
           ValueId y = b.relu(b.batchNorm(fmt::format("n{}", i), b.conv(fmt::format("c{}", i), in, plus(3))));
           y = b.conv(fmt::format("d{}", i), y, plus(3));
           x = i == 0 ? b.add({y, b.conv("short", in, plus(1))}) : b.relu(b.add({y, in}));
         }
         return x;
       }},
      // The sum's gradient arrives in another layout than the sum's own, and one of its inputs is read later too.
      {"sum_whose_input_is_read_later",
       [=](ModelBuilder& b, ValueId x) {
         const ValueId p = b.conv("p", x, {.outputs = 16});
         const ValueId q = b.conv("q", x, {.outputs = 16});
         const ValueId r = b.conv("r", x, {.outputs = 5});
         const ValueId sum = b.add({p, q, r});
         return b.concat({b.conv("s", sum, plus(3)), p, b.conv("t", q, plus(3))});
       }},
      {"many_readers",
       [=](ModelBuilder& b, ValueId x) {
         const ValueId pooled = b.flatten(b.maxPool(x, 2, 1));
         const ValueId flat =
             b.flatten(b.concat({b.conv("c", x, plus(3)), b.lrn(x, {.alpha = 0.5f}), b.relu(x)}));
         return b.concat({pooled, flat, b.flatten(x), b.dense("d", x, {.outputs = 4})});
       }},
      {"flat_readers",
       [](ModelBuilder& b, ValueId x) {
         const ValueId flat = b.flatten(x);
         return b.add({b.relu(flat), flat, b.dropout(flat, 0.25f)});
       }},
      {"shared_with_an_alias",
       [](ModelBuilder& b, ValueId x) {
         const ValueId kept = b.dropout(x, 0.0f);
         return b.add({b.relu(kept), b.lrn(x, {.alpha = 0.5f}), kept});
       }},
      {"input_too",
       [](ModelBuilder& b, ValueId x) {
         const ValueId image = b.input();
         return b.concat({b.add({b.conv("c", x, {.outputs = 5}), image}), b.add({image, image}),
                          b.relu(image), b.concat({image, image})});
       }},
  };
  std::vector<NetworkCase> cases;
  for (const auto& [name, body] : bodies) {
    for (const std::int64_t channels : {5, 8, 16}) {
      cases.push_back({.name = fmt::format("{}_{}ch", name, channels),
                       .graph = networkAround({channels, 3, 4}, body),
                       .samples = 2});
    }
  }
  return cases;
}

class ConcatTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(ConcatTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
class AddTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(AddTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
class SharedValueTest : public testing::TestWithParam<NetworkCase> {};
TEST_P(SharedValueTest, MatchesTheReference) {
  reference::expectMatchesReference(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Widths, ConcatTest, testing::ValuesIn(concatCases()), reference::caseName);
INSTANTIATE_TEST_SUITE_P(Widths, AddTest, testing::ValuesIn(addCases()), reference::caseName);
INSTANTIATE_TEST_SUITE_P(Readers, SharedValueTest, testing::ValuesIn(sharingCases()), reference::caseName);

}  // namespace
}  // namespace cohort
