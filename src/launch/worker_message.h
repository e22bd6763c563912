// What a worker tells its supervisor: one JSON object a line, shorter than a pipe takes at once, so that lines of several
// workers never mix. Private to launch.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/batch.h"
#include "report/console.h"

namespace cohort {

struct WorkerMessage {
  enum class Kind {
    Alive,     // a few times a second
    Text,      // to be shown, `how` says in which way
    Progress,  // to be shown
    Failed,    // the last word of a worker that cannot go on: text and exit code
    Finished   // the last word of one that is done, or was asked to stop: the exit code says which
  };
  enum class How { Print, Detail, Result, Warning };

  Kind kind = Kind::Alive;
  int worker = 0;         // its number
  bool isServer = false;  // then that is a server's number; servers say Failed alone

  // Alive
  int process = 0;
  Step step = 0;                 // done
  bool isTraining = false;       // in steps
  bool mayRest = false;          // may stand still without waiting for anybody
  std::uint64_t beats = 0;       // goes up while something is done
  std::string doing = {};        // "computing", "reading samples" …
  std::string waitsFor = {};     // "worker 1: its part of step 12"; empty where it does not wait for another
  bool waitsForAnother = false;  // that is a worker, not a center

  // Text, Failed
  How how = How::Print;
  std::string text = {};
  int exitCode = 0;  // Failed, Finished

  ProgressReport progress = {};  // Progress
};

// Ends with a newline; texts are cut to what fits.
std::string toLine(const WorkerMessage& message);
// Nothing where the line is none of ours.
std::optional<WorkerMessage> parseLine(std::string_view line);

}  // namespace cohort
