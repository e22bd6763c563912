#include "fetch/program.h"

#include <csignal>

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "fetch/failure.h"

namespace cohort {
namespace {

std::string failureOf(const std::vector<std::string>& command) {
  const TestDirectory folder;
  return errorOf<Unavailable>([&] { runProgram(command, folder.path()); });
}

TEST(Program, RunsInTheFolderWithItsArgumentsUntouched) {
  const TestDirectory folder;
  runProgram({"touch", "a b", "$HOME;*"}, folder.path());
  EXPECT_TRUE(std::filesystem::exists(folder / "a b"));
  EXPECT_TRUE(std::filesystem::exists(folder / "$HOME;*"));
}

TEST(Program, ThatFailsIsToldWithItsCodeAndItsWords) {
  EXPECT_EQ(failureOf({"sh", "-c", "echo first; echo '  second.' >&2; exit 7"}),
            "sh failed with exit code 7: first second");
  EXPECT_EQ(failureOf({"false"}), "false failed with exit code 1");
  EXPECT_EQ(failureOf({"sh", "-c", "kill -9 $$"}), "sh was ended by signal 9");
}

TEST(Program, ThatSaysMuchDoesNotBlockAndOnlyItsEndIsKept) {
  const std::string failure = failureOf({"sh", "-c", "seq 1 100000; exit 1"});
  EXPECT_TRUE(failure.ends_with(" 99999 100000")) << failure;
  EXPECT_LT(failure.size(), 1000u);
}

TEST(Program, ThatDoesNotExistIsToldSo) {
  EXPECT_EQ(failureOf({"no-such-program-here"}),
            "no-such-program-here cannot be started: No such file or directory");
}

TEST(Program, HasNothingToRead) {
  EXPECT_EQ(failureOf({"cat"}), "no error");
}

// The program blocks SIGINT and SIGTERM in its threads; a child that inherited that could not be stopped.
TEST(Program, CanBeStoppedBySignalsThatTheCallerBlocks) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const std::string failure = failureOf({"sh", "-c", "kill -TERM $$; exit 0"});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(failure, "sh was ended by signal 15");
}

}  // namespace
}  // namespace cohort
