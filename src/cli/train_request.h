// What a user asks of `cohort train`, for each of its ways: alone, under MPI, with a center. Private to cli.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "launch/supervision.h"
#include "report/console.h"
#include "train/run.h"

namespace cohort {

// What is asked for, and where: made by whoever leads the run.
struct Request {
  std::filesystem::path directory{};  // empty: nobody says
  RunConfig config{};
};

// `more`: settings that are as they are, whatever was given. UsageError where they do not fit.
Request requestOf(const RunContext& context, const TrainArguments& arguments, const GivenSettings& more = {});

// By whichever way.
bool isGiven(const TrainArguments& arguments, const char* setting);
// The last value, as given; nothing where nobody did.
std::optional<std::string> givenText(const TrainArguments& arguments, const char* setting);

// What older names have to say, and which settings are another rule's.
void printNotes(Screen& screen, const TrainArguments& arguments, const RunConfig& config);
// "note: chaos has no effect here: WHY" for each of these that is given.
void sayIdle(Screen& screen, const TrainArguments& arguments, const std::vector<const char*>& settings,
             const std::string& why);
// Those that are a supervisor's, where there is none.
void sayUnsupervised(Screen& screen, const TrainArguments& arguments);

// Names a new job directory where none was asked for, and says so; returns what this program's workers are started with.
Supervision supervisionOf(const TrainArguments& arguments, Request& request, Screen& screen);

// As one worker of a center (--join).
int trainAsJoined(const RunContext& context, const TrainArguments& arguments);
// Starts a center and its workers.
int superviseWithCenter(const TrainArguments& arguments, Request request);

}  // namespace cohort
