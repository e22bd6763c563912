// One function per subcommand. Each takes parsed arguments and returns an exit code; errors are thrown. Private to cli.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/place_flags.h"
#include "report/console.h"
#include "train/run.h"
#include "train/run_config.h"

namespace CLI {
class App;
}

namespace cohort {

struct TrainArguments {
  std::vector<std::string> words;  // the command line after the program's name
  std::vector<GivenSettings> layers;
  std::vector<std::string> notes;  // to print first
  Verbosity verbosity = Verbosity::Normal;
  std::string join;         // addresses of a center's servers
  std::string credentials;  // a file
  bool insecure = false;
  PlaceFlags place;
  std::string devicesVisible;  // cores; empty: all that it may use
  int workersPerTask = 0;      // 0: nobody says
  std::chrono::steady_clock::time_point processStart;
};

struct LaunchArguments {
  std::string hosts;  // a file
  std::optional<std::string> ssh;
  std::string remoteProgram;  // "": this one's path
  std::string directory;      // "": this one's
  int maxRestarts = 3;
  bool dryRun = false;
  std::vector<std::string> words;  // after --
};

struct ServeArguments {
  std::string listen = "127.0.0.1:0";
  int servers = 1;
  int index = 0;
  std::string credentials;
  bool insecure = false;
  std::string jobDirectory = "center";
  std::string snapshotEvery = "30s";
  std::string journal;  // a folder; empty: in its own
  bool noJournal = false;
};

struct StatusArguments {
  std::string center;  // a job directory, or addresses
  std::string credentials;
  bool insecure = false;
};

struct EvaluateArguments {
  std::string jobDirectory;
  std::string checkpoint;
  std::string split = "test";
  int threads = 0;
  std::string devicesVisible;
};

struct DescribeArguments {
  std::vector<GivenSettings> layers;
  std::vector<std::string> notes;
  bool list = false;
};

struct StudyArguments {
  std::string file;
  std::string directory;  // "": studies-out/NAME
  bool dryRun = false;
};

struct ReportArguments {
  std::vector<std::string> runs;  // job directories
  std::string output = "report.html";
  std::string svgDirectory;
};

struct ReplayArguments {
  std::string run;                   // a job directory
  std::vector<std::string> folders;  // of servers that had their own
  int threads = 0;                   // 0: every core
  std::string devicesVisible;
};

struct VerifyArguments {
  std::vector<std::string> runs;
  std::string replay;  // "FROM:TO"
  int workers = 0;     // of the replay; 0: as many as it needs
};

int trainCommand(const RunContext& context, const TrainArguments& arguments);
int launchCommand(const RunContext& context, const LaunchArguments& arguments);
int attendCommand(const std::vector<std::string>& command);
int credentialsCommand(const std::string& file);
int statusCommand(const StatusArguments& arguments);
int serveCommand(const ServeArguments& arguments);
int evaluateCommand(const RunContext& context, const EvaluateArguments& arguments);
int describeCommand(const RunContext& context, const DescribeArguments& arguments);
int studyCommand(const NetworkRegistry& networks, const StudyArguments& arguments);
int reportCommand(const ReportArguments& arguments);
int replayCommand(const RunContext& context, const ReplayArguments& arguments);
int verifyCommand(const VerifyArguments& arguments);

// `cohort data …` with its subcommands; the one that runs sets `exitCode`.
void addDataCommands(CLI::App& app, int& exitCode);
void addBenchCommands(CLI::App& app, const NetworkRegistry& networks, int& exitCode);
// `cohort cluster …`, `cohort slurm …` and `cohort doctor`, likewise; the context outlives the app.
void addClusterCommands(CLI::App& app, const RunContext& context, int& exitCode);
void addSlurmCommands(CLI::App& app, const RunContext& context, int& exitCode);
void addDoctorCommand(CLI::App& app, const RunContext& context, int& exitCode);

}  // namespace cohort
