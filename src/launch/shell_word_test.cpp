#include "launch/shell_word.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(ShellWord, IsLeftAloneWhereAShellWould) {
  for (const char* word : {"train", "--lr=0.1", "/a/b-1.txt", "n1:7000,n2", "50%", "user@host"}) {
    EXPECT_EQ(shellWord(word), word);
  }
}

TEST(ShellWord, IsQuotedWhereAShellWouldChangeIt) {
  EXPECT_EQ(shellWord(""), "''");
  EXPECT_EQ(shellWord("a b"), "'a b'");
  EXPECT_EQ(shellWord("$(reboot)"), "'$(reboot)'");
  EXPECT_EQ(shellWord("it's"), R"('it'\''s')");
  EXPECT_EQ(shellWord("~/runs"), "'~/runs'");
  EXPECT_EQ(shellWord("n[1-3]"), "'n[1-3]'");
}

}  // namespace
}  // namespace cohort
