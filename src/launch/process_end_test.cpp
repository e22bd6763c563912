#include "launch/process_end.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"

namespace cohort {
namespace {

WorkerMessage failure(int code, bool isServer = false) {
  WorkerMessage message{.kind = WorkerMessage::Kind::Failed, .worker = 1, .isServer = isServer};
  message.text = "the disk is full";
  message.exitCode = code;
  return message;
}

TEST(ProcessEnd, TellsASignalFromACode) {
  EXPECT_EQ(deathText(128 + 9), "was ended by signal 9 (Killed)");
  EXPECT_EQ(deathText(3), "ended with code 3");
}

TEST(ProcessEnd, FailuresKeepTheirKindAndSayWhose) {
  EXPECT_EQ(errorOf<UsageError>([] { throwFailure(failure(2)); }), "the disk is full");
  EXPECT_EQ(errorOf<IoError>([] { throwFailure(failure(3)); }), "worker 1: the disk is full");
  EXPECT_EQ(errorOf<IoError>([] { throwFailure(failure(3, true)); }), "server 1: the disk is full");
  EXPECT_EQ(errorOf<PeerError>([] { throwFailure(failure(4)); }), "worker 1: the disk is full");
  EXPECT_EQ(errorOf<PeerError>([] { throwFailure(failure(1)); }), "worker 1: the disk is full");
}

TEST(ProcessEnd, SaysWhereARunGoesOn) {
  EXPECT_EQ(placeText(-1), "the beginning");
  EXPECT_EQ(placeText(300), "the checkpoint of step 300");
}

}  // namespace
}  // namespace cohort
