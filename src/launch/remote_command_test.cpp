#include "launch/remote_command.h"

#include <array>
#include <cstdio>
#include <memory>

#include <gtest/gtest.h>

#include "launch/shell_word.h"

namespace cohort {
namespace {

using Words = std::vector<std::string>;

std::string outputOf(const std::string& shellCommand) {
  std::FILE* const stream = ::popen(shellCommand.c_str(), "r");
  std::string output;
  std::array<char, 256> part{};
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), stream))
    output.append(part.data(), got);
  ::pclose(stream);
  return output;
}

TEST(ShellWord, IsPlainWhereItMayBe) {
  EXPECT_EQ(shellLine({"--ps-hosts", "a:1,b:2", "runs/a_b-1.txt", "x=%1", "me@n1"}),
            "--ps-hosts a:1,b:2 runs/a_b-1.txt x=%1 me@n1");
}

TEST(ShellWord, ComesOutOfAShellAsItWas) {
  for (const std::string word : {"", " ", "a b", "it's", "''", "$HOME", "`id`", "a;b", "*", "~", "\\", "\"",
                                 "#x", "!x", "[::1]:8", "new\nline", "a&&b|c>d<e", "\xc3\xa9"}) {
    EXPECT_EQ(outputOf("printf %s " + shellWord(word)), word);
    EXPECT_EQ(outputOf("exec sh -c " + shellWord("printf %s " + shellWord(word))), word);
  }
}

TEST(PassedVariables, AreTheProgramsOwn) {
  EXPECT_EQ(passedVariables({{"COHORT_A", "x y"},
                             {"COHORT_SUPERVISOR", "/tmp/fifo"},
                             {"COHORT_WORKER", "1"},
                             {"HOME", "/root"},
                             {"XCOHORT_B", "1"}}),
            (Words{"COHORT_A=x y"}));
}

TEST(BlankSeparated, LeavesNoEmptyWord) {
  EXPECT_EQ(blankSeparated("  ssh  -p 22 "), (Words{"ssh", "-p", "22"}));
  EXPECT_EQ(blankSeparated(" "), Words{});
}

TEST(RemoteCommand, NamesTheHostAndQuotesTheRest) {
  const auto members = parseHostsFile("a:1 worker\n[::1]:2 worker cores=0\n", "hosts");
  const RemotePlan plan{.ssh = {"ssh", "-p", "9"},
                        .program = "/opt/my programs/cohort",
                        .directory = "/data/a b",
                        .words = {"train", "--job-dir", "it's"},
                        .variables = {"COHORT_A=x y"}};
  EXPECT_EQ(remoteCommand(plan, members, 1),
            (Words{"ssh", "-p", "9", "::1",
                   "cd '/data/a b' && exec env 'COHORT_A=x y' '/opt/my programs/cohort' attend "
                   "'/opt/my programs/cohort' train --job-dir 'it'\\''s' --worker-hosts 'a:1,[::1]:2' "
                   "--job-name worker --task-index 1 --devices-visible 0"}));
}

TEST(RemoteCommand, HasNoEnvWithoutVariables) {
  const auto members = parseHostsFile("a:1 worker\n", "hosts");
  const RemotePlan plan{.ssh = {"ssh"}, .program = "cohort", .directory = "/w", .words = {"train"}};
  EXPECT_EQ(remoteCommand(plan, members, 0).back(),
            "cd /w && exec cohort attend cohort train --worker-hosts a:1 --job-name worker --task-index 0");
}

}  // namespace
}  // namespace cohort
