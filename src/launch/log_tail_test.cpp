#include "launch/log_tail.h"

#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "base/test_directory.h"

namespace cohort {
namespace {

class Lines : public Screen {
 public:
  void progress(const ProgressReport&) override {}
  void endProgress() override {}
  void detail(const std::string&) override {}
  void print(const std::string&) override {}
  void result(const std::string& line) override { all.push_back(line); }
  void warn(const std::string&) override {}

  std::vector<std::string> all;
};

void add(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::app) << text;
}

using Texts = std::vector<std::string>;

TEST(LogTail, ShowsWholeLinesThatCameAfterItsBegin) {
  const TestDirectory folder;
  const auto file = folder / "log";
  add(file, "of a run before\n");
  LogTail tail(file);
  Lines lines;
  tail.show(lines);
  EXPECT_EQ(lines.all, Texts{});
  add(file, "one\ntw");
  tail.show(lines);
  EXPECT_EQ(lines.all, (Texts{"one"}));
  add(file, "o\n\nthree\n");
  tail.show(lines);
  EXPECT_EQ(lines.all, (Texts{"one", "two", "", "three"}));
}

TEST(LogTail, OfAFileThatComesLater) {
  const TestDirectory folder;
  LogTail tail(folder / "log");
  Lines lines;
  tail.show(lines);
  add(folder / "log", "one\n");
  tail.show(lines);
  EXPECT_EQ(lines.all, Texts{"one"});
}

TEST(LastLine, IsOfThisStart) {
  const TestDirectory folder;
  const auto file = folder / "log";
  EXPECT_EQ(lastLine(file, 0), "");
  add(file, "before\n");
  EXPECT_EQ(lastLine(file, 0), "before");
  EXPECT_EQ(lastLine(file, 7), "");
  add(file, "cohort: a sentence\n \n");
  EXPECT_EQ(lastLine(file, 7), "cohort: a sentence");
  add(file, std::string(10'000, 'x') + "\nend");
  EXPECT_EQ(lastLine(file, 7), "end");
}

}  // namespace
}  // namespace cohort
