// What a user asks of `cohort train`, for each of its ways: alone, under MPI, with a center. Private to cli.
#pragma once

#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cluster/cluster_map.h"
#include "launch/supervision.h"
#include "launch/worker_cores.h"
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
// Those that are a supervisor's, where there is none. Several workers find out who stands still by themselves.
void sayUnsupervised(Screen& screen, const TrainArguments& arguments, int workers = 1);

// Seconds that a worker without a supervisor waits for another. By the workers' signs it is known sooner who stands still.
double patienceOf(const RunConfig& config);

// Names a new job directory where none was asked for, and says so; returns what this program's workers are started with.
Supervision supervisionOf(const TrainArguments& arguments, Request& request, Screen& screen);

// So many workers, before it is known how many of them are servers, or into how many groups they divide.
GivenSettings asOneEach(int workers);
// Why a run with a center has no use for --elastic.
std::string whyInelastic(const RunConfig& config);

// What launchers' tasks have in common. N tasks that each train the whole run in the same folder are never what somebody wanted:
// a UsageError.
void requireNoSingletons(int mpiSize);
// By a task that cannot go on, inside its MPI session: tells why, once for all that fail alike, and ends all. The
// hosts of `workers`, where they are known, are named.
[[noreturn]] void endAllTasks(int rank, const std::exception& error,
                              const std::vector<WorkerCores>& workers = {});

// As one task of srun or mpirun, of a run with a center.
int trainAsTask(const RunContext& context, const TrainArguments& arguments);
// As one of these workers, whoever has brought them together; the first one shows the run.
int trainAmong(const RunContext& context, const TrainArguments& arguments, Communicator& workers,
               Screen& screen);
// As one member of a cluster that is named by flags or TF_CONFIG.
int trainAsNamed(const RunContext& context, const TrainArguments& arguments, const ClusterMap& cluster);
// As an evaluator: of each checkpoint that comes, until the run is over.
int evaluateAsTheyCome(const RunContext& context, const TrainArguments& arguments, const ClusterMap& cluster);

// Whether workers in virtual time are asked for.
bool wantsVirtual(const TrainArguments& arguments);
// All of them, in this process; it is one of so many tasks of a launcher. UsageError where that is more than one.
int trainVirtually(const RunContext& context, const TrainArguments& arguments, int tasks);

// As one worker of a center (--join).
int trainAsJoined(const RunContext& context, const TrainArguments& arguments);
// Starts a center and its workers.
int superviseWithCenter(const TrainArguments& arguments, Request request);

}  // namespace cohort
