// One function per subcommand. Each takes parsed arguments and returns an exit code; errors are thrown. Private to cli.
#pragma once

#include <chrono>
#include <string>
#include <vector>

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
  std::chrono::steady_clock::time_point processStart;
};

struct ServeArguments {
  std::string listen = "127.0.0.1:0";
  int servers = 1;
  int index = 0;
  std::string credentials;
  bool insecure = false;
  std::string jobDirectory = "center";
  std::string snapshotEvery = "30s";
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

struct VerifyArguments {
  std::vector<std::string> runs;
  std::string replay;  // "FROM:TO"
  int workers = 0;     // of the replay; 0: as many as it needs
};

int trainCommand(const RunContext& context, const TrainArguments& arguments);
int credentialsCommand(const std::string& file);
int statusCommand(const StatusArguments& arguments);
int serveCommand(const ServeArguments& arguments);
int evaluateCommand(const RunContext& context, const EvaluateArguments& arguments);
int describeCommand(const RunContext& context, const DescribeArguments& arguments);
int studyCommand(const NetworkRegistry& networks, const StudyArguments& arguments);
int reportCommand(const ReportArguments& arguments);
int verifyCommand(const VerifyArguments& arguments);

// `cohort data …` with its subcommands; the one that runs sets `exitCode`.
void addDataCommands(CLI::App& app, int& exitCode);
// `cohort cluster …` and `cohort bench …`, likewise.
void addClusterCommands(CLI::App& app, int& exitCode);
void addBenchCommands(CLI::App& app, const NetworkRegistry& networks, int& exitCode);

}  // namespace cohort
