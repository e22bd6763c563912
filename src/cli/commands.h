// One function per subcommand. Each takes parsed arguments and returns an exit code; errors are thrown. Private to cli.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "models/network.h"
#include "train/run_config.h"

namespace cohort {

struct TrainArguments {
  GivenSettings given;
  std::string jobDirectory;
  std::chrono::steady_clock::time_point processStart;
};

struct EvaluateArguments {
  std::string jobDirectory;
  std::string checkpoint;
  std::string split = "test";
  int threads = 0;
};

struct DescribeArguments {
  GivenSettings given;
  bool list = false;
};

struct ReportArguments {
  std::vector<std::string> runs;  // job directories
  std::string output = "report.html";
  std::string svgDirectory;
};

int trainCommand(const NetworkRegistry& networks, const TrainArguments& arguments);
int evaluateCommand(const NetworkRegistry& networks, const EvaluateArguments& arguments);
int describeCommand(const NetworkRegistry& networks, const DescribeArguments& arguments);
int reportCommand(const ReportArguments& arguments);

}  // namespace cohort
