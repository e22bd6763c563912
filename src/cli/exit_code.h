// Which exit code a failure has, and which of several workers tells it. Private to cli.
#pragma once

#include <exception>

namespace cohort {

// kUsageError, kIoError, kPeerError as base/error.h has them; kInternalError for all else.
int exitCodeOf(const std::exception& error);

// By a worker that is about to tell its failure and to end all: what all notice at once, the first one says, and others wait for that.
void letFirstSpeak(int rank, int code);
// By one that has told its failure and is about to end all: of those who wait for each other, only some wait for the one who is to
// blame, and they give up in the same moment.
void letOthersSpeak(int code);

}  // namespace cohort
