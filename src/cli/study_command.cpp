#include <cstdio>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/version.h"
#include "report/console.h"
#include "study/run_study.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string countText(std::size_t runs) {
  return fmt::format("{} run{}", runs, runs == 1 ? "" : "s");
}

// A line for every run that has ended; on a terminal a live one for the run that is going, elsewhere a line when it
// starts.
class StudyLines : public StudyObserver {
 public:
  StudyLines(Console& console, fs::path directory) : console_(console), directory_(std::move(directory)) {}

  void started(std::size_t count, std::size_t finished) override {
    console_.print(fmt::format("{} in {}{}", countText(count), directory_.string(),
                               finished == 0 ? "" : fmt::format(", {} finished before", finished)));
  }
  void runStarted(const Progress& p) override {
    if (!console_.live()) console_.print(name(p));
  }
  void runWaits(const fs::path& jobDirectory) override {
    console_.print(fmt::format("waiting for the process that still trains in {}", jobDirectory.string()));
  }
  void progressed(const Progress& p) override {
    std::string line = fmt::format("{}  {}", name(p), clockText(p.seconds));
    if (p.secondsLeft >= 0) line += fmt::format(", all in {}", clockText(p.secondsLeft));
    if (p.lastLine.starts_with("step ")) line += "  " + p.lastLine;
    console_.status(line);
  }
  void runEnded(const Progress& p, int exitCode, const std::string& measured) override {
    const std::string how = exitCode == kSuccess  ? "done"
                            : exitCode == kResume ? "stopped"
                                                  : fmt::format("failed with exit code {}", exitCode);
    const std::string& more = exitCode == kSuccess || exitCode == kResume ? measured : p.lastLine;
    console_.print(fmt::format("{}{} in {}{}{}", console_.live() ? name(p) + "  " : "  ", how,
                               clockText(p.seconds), more.empty() ? "" : ": ", more));
  }

 private:
  static std::string name(const Progress& p) {
    return fmt::format("{}/{}  {}", p.number, p.count, p.description);
  }

  Console& console_;
  fs::path directory_;
};

void listRuns(const Study& study, const fs::path& directory, const NetworkRegistry& networks) {
  const std::vector<bool> finished = finishedRuns(study, directory, networks);
  fmt::print("{} in {}\n", countText(study.runs.size()), directory.string());
  for (std::size_t i = 0; i < study.runs.size(); ++i) {
    fmt::print("{:>5}  {}{}\n", i + 1, study.runs[i].name, finished[i] ? "  (finished)" : "");
  }
}

// One sentence for all that failed.
std::string failureText(const StudyOutcome& outcome, std::size_t count, const fs::path& directory) {
  const StudyOutcome::Failure& first = outcome.failures.front();
  return fmt::format(
      "{} of {} failed, the first of them {} with exit code {} (see {}); the same command tries {} again",
      outcome.failures.size(), countText(count), first.run, first.exitCode,
      (directory / "runs" / first.run / "output.txt").string(), outcome.failures.size() == 1 ? "it" : "them");
}

}  // namespace

int studyCommand(const NetworkRegistry& networks, const StudyArguments& arguments) {
  const Study study = readStudy(arguments.file, networks);
  const fs::path path =
      arguments.directory.empty() ? fs::path("studies-out") / study.name : fs::path(arguments.directory);
  if (arguments.dryRun) {
    listRuns(study, path, networks);
    return kSuccess;
  }
  const StudyDirectory directory(path, study);
  Console console(stdout, stderr, terminalOptions(Verbosity::Normal));
  StudyLines lines(console, path);
  const StopFlag& stop = stopOnSignals();
  const StudyOutcome outcome = runStudy(study, directory, networks, {.version = kVersion}, stop, lines);
  console.print(fmt::format("{} of {} finished: {}", outcome.finished, countText(study.runs.size()),
                            (path / "report.html").string()));
  if (outcome.interrupted) {
    console.print(fmt::format("stopped by a signal; go on with: cohort study {}{}", arguments.file,
                              arguments.directory.empty() ? "" : " --study-dir " + arguments.directory));
    return kResume;
  }
  if (!outcome.failures.empty()) throw IoError(failureText(outcome, study.runs.size(), path));
  return kSuccess;
}

}  // namespace cohort
