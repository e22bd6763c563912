#include "report/receipt_file.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"

namespace cohort {
namespace {

constexpr Step kEnd = std::numeric_limits<Step>::max();

Receipt receipt(Step step, const std::string& weights, double loss = 0.1) {
  return {.step = step,
          .loss = loss,
          .weights = weights,
          .parameters = {{"conv1.weight", "a"}, {"fc.weight", weights}}};
}

class ReceiptFileTest : public testing::Test {
 protected:
  void write(const std::vector<Receipt>& receipts, Step resumeStep = 0) const {
    ReceiptFile file(path_, resumeStep);
    for (const Receipt& each : receipts) file.add(each);
    file.flush();
  }
  TestDirectory folder_;
  std::filesystem::path path_ = folder_ / "receipt.jsonl";
};

TEST_F(ReceiptFileTest, IsReadAsItWasWritten) {
  write({receipt(10, "x", 1.0 / 3), {.step = 20, .loss = 5e-324, .weights = "y"}});
  EXPECT_EQ(
      readWholeFile(path_),
      "{\"step\":10,\"loss\":0.3333333333333333,\"weights\":\"x\",\"parameters\":{\"conv1.weight\":\"a\","
      "\"fc.weight\":\"x\"}}\n{\"step\":20,\"loss\":5e-324,\"weights\":\"y\"}\n");
  const std::vector<Receipt> read = readReceipts(path_);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].loss, 1.0 / 3);
  EXPECT_EQ(read[0].parameters, receipt(10, "x").parameters);
  EXPECT_EQ(read[1].step, 20);
  EXPECT_EQ(read[1].loss, 5e-324);
  EXPECT_TRUE(read[1].parameters.empty());
}

TEST_F(ReceiptFileTest, GoesOnWhereTheRunDoes) {
  write({receipt(10, "x"), receipt(20, "torn from the run")});
  write({receipt(20, "y")}, 10);
  const std::vector<Receipt> read = readReceipts(path_);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].weights, "y");
}

TEST_F(ReceiptFileTest, NamesTheLineThatIsNoReceipt) {
  for (const char* line :
       {"{\"step\":1,\"loss\":1}\n", "{\"step\":1,\"loss\":1,\"weights\":3}\n",
        "{\"step\":1,\"loss\":1,\"weights\":\"a\",\"parameters\":[]}\n",
        "{\"step\":1,\"loss\":1,\"weights\":\"a\",\"parameters\":{\"b\":1}}\n", "receipt\n"}) {
    writeTestFile(path_, std::string("{\"step\":0,\"loss\":1,\"weights\":\"a\"}\n") + line);
    EXPECT_MENTIONS(errorOf<IoError>([&] { readReceipts(path_); }), "Line 2 of " + path_.string()) << line;
  }
}

TEST(CompareReceipts, TellsTheFirstStepAndParameter) {
  const std::vector<Receipt> a = {receipt(10, "x"), receipt(20, "y"), receipt(30, "z")};
  EXPECT_EQ(compareReceipts(a, a, 0, kEnd).equal, (std::vector<Step>{10, 20, 30}));
  EXPECT_TRUE(compareReceipts(a, a, 0, kEnd).different.empty());

  const std::vector<Receipt> b = {receipt(10, "x"), receipt(20, "other"), receipt(30, "z", 0.2)};
  const Comparison comparison = compareReceipts(a, b, 0, kEnd);
  EXPECT_EQ(comparison.equal, (std::vector<Step>{10}));
  EXPECT_EQ(comparison.different, (std::vector<Step>{20, 30}));
  EXPECT_EQ(comparison.what, "fc.weight");
  EXPECT_EQ(compareReceipts(a, b, 21, kEnd).what, "loss");
  EXPECT_EQ(compareReceipts(a, b, 0, 10).different, std::vector<Step>());
}

TEST(CompareReceipts, NeedsOnlyTheStepsAndHashesOfBoth) {
  const std::vector<Receipt> traced = {receipt(10, "x"), receipt(15, "y"), receipt(20, "z")};
  const std::vector<Receipt> plain = {{.step = 20, .loss = 0.1, .weights = "other"},
                                      {.step = 25, .weights = "w"}};
  const Comparison comparison = compareReceipts(traced, plain, 0, kEnd);
  EXPECT_TRUE(comparison.equal.empty());
  EXPECT_EQ(comparison.different, (std::vector<Step>{20}));
  EXPECT_EQ(comparison.what, "weights");
}

}  // namespace
}  // namespace cohort
