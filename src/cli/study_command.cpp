#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/run.h"
#include "cli/signals.h"
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
class StudyConsole : public StudyObserver {
 public:
  StudyConsole(bool live, fs::path directory) : live_(live), directory_(std::move(directory)) {}
  ~StudyConsole() override { clear(); }
  StudyConsole(const StudyConsole&) = delete;
  StudyConsole& operator=(const StudyConsole&) = delete;

  void started(std::size_t count, std::size_t finished) override {
    print(fmt::format("{} in {}{}", countText(count), directory_.string(),
                      finished == 0 ? "" : fmt::format(", {} finished before", finished)));
  }
  void runStarted(const Progress& p) override {
    if (!live_) print(name(p));
  }
  void runWaits(const fs::path& jobDirectory) override {
    print(fmt::format("waiting for the process that still trains in {}", jobDirectory.string()));
  }
  void progressed(const Progress& p) override {
    std::string line = fmt::format("{}  {}", name(p), clockText(p.seconds));
    if (p.secondsLeft >= 0) line += fmt::format(", all in {}", clockText(p.secondsLeft));
    if (p.lastLine.starts_with("step ")) line += "  " + p.lastLine;
    show(line);
  }
  void runEnded(const Progress& p, int exitCode, const std::string& measured) override {
    const std::string how = exitCode == kSuccess  ? "done"
                            : exitCode == kResume ? "stopped"
                                                  : fmt::format("failed with exit code {}", exitCode);
    const std::string& more = exitCode == kSuccess || exitCode == kResume ? measured : p.lastLine;
    print(fmt::format("{}{} in {}{}{}", live_ ? name(p) + "  " : "  ", how, clockText(p.seconds),
                      more.empty() ? "" : ": ", more));
  }
  void print(const std::string& line) {
    clear();
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  static std::string name(const Progress& p) {
    return fmt::format("{}/{}  {}", p.number, p.count, p.description);
  }

  // The live line: printable, and shorter than the terminal is wide.
  void show(std::string line) {
    if (!live_ || line == shown_) return;
    shown_ = line;
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    line.resize(std::min<std::size_t>(line.size(), known ? size.ws_col - 1U : 79U));
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    // One write: overwrite, then clear what the old line had more.
    std::fputs(fmt::format("\r{}\033[K", line).c_str(), stdout);
    std::fflush(stdout);
  }
  void clear() {
    if (!shown_.empty()) std::fputs("\r\033[K", stdout);
    shown_.clear();
  }

  bool live_;
  fs::path directory_;
  std::string shown_;
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
  StudyConsole console(isatty(STDOUT_FILENO) != 0, path);
  const StopFlag& stop = stopOnSignals();
  const StudyOutcome outcome = runStudy(study, directory, networks, {.version = kVersion}, stop, console);
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
