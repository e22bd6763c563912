// cohort data …: what is done with datasets before training. A new subcommand is one function here, called by
// addDataCommands.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/image_commands.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "fetch/fetch.h"
#include "report/console.h"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

// One live line for the bytes on a terminal, plain lines elsewhere.
class FetchLines : public FetchObserver {
 public:
  explicit FetchLines(bool live) : live_(live) {}
  ~FetchLines() override { clear(); }
  FetchLines(const FetchLines&) = delete;
  FetchLines& operator=(const FetchLines&) = delete;

  void trying(const std::string& source) override {
    print("fetching " + source);
    if (!live_) shown_ = Clock::now();
  }
  void transferred(const std::string& file, std::uint64_t bytes, std::uint64_t total) override {
    const Clock::time_point now = Clock::now();
    const bool last = total > 0 && bytes == total;
    if (!last && now - shown_ < (live_ ? kLiveEvery : kPlainEvery)) return;
    shown_ = now;
    const std::string of = total == 0 ? "" : fmt::format(" of {}", bytesText(static_cast<double>(total)));
    const std::string text = fmt::format("  {}: {}{}", file, bytesText(static_cast<double>(bytes)), of);
    if (live_ && !last) {
      show(text);
    } else {
      print(text);
    }
  }
  void unpacking(const std::string& file) override { print(fmt::format("  unpacking {}", file)); }
  void unavailable(const std::string& source, const std::string& reason) override {
    print(fmt::format("{} cannot be used: {}", source, reason));
  }
  void print(const std::string& text) {
    clear();
    std::fputs((text + "\n").c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  static constexpr Clock::duration kLiveEvery = std::chrono::milliseconds(100);
  static constexpr Clock::duration kPlainEvery = std::chrono::seconds(5);

  void show(std::string text) {
    winsize size{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    text.resize(std::min<std::size_t>(text.size(), (known ? size.ws_col : 80u) - 1));
    std::fputs(fmt::format("\r{}\033[K", text).c_str(), stdout);
    std::fflush(stdout);
    lineShown_ = true;
  }
  void clear() {
    if (lineShown_) std::fputs("\r\033[K", stdout);
    lineShown_ = false;
  }
  bool live_;
  bool lineShown_ = false;
  Clock::time_point shown_;  // when the last line was
};

int fetchCommand(const FetchRequest& request) {
  FetchLines lines(terminalOptions(Verbosity::Normal).live);
  const FetchResult result = fetchDataset(request, lines);
  lines.print(fmt::format("{} is complete in {}{}", request.dataset, result.directory.string(),
                          result.wasComplete ? " already" : ""));
  return kSuccess;
}

void addFetch(CLI::App& data, int& exitCode) {
  CLI::App* const command =
      data.add_subcommand("fetch", "Bring a public dataset to this machine, its checksums compared");
  const auto request = std::make_shared<FetchRequest>();
  std::string names;
  for (const std::string& name : fetchableDatasets()) names += (names.empty() ? "" : ", ") + name;
  command->add_option("dataset", request->dataset, names)->type_name("NAME")->required();
  command->add_option("--to", request->directory, "the folder for its files (default: data/NAME)")
      ->type_name("DIR");
  command->add_option("--from", request->from, "take them from this folder (http, https or file), a mirror")
      ->type_name("URL");
  command->footer(
      "Where the home cannot be reached, packages of Debian and npm are asked. The same command goes on\n"
      "where it was stopped, and does nothing where all is there.");
  command->callback([request, &exitCode] { exitCode = fetchCommand(*request); });
}

}  // namespace

void addDataCommands(CLI::App& app, int& exitCode) {
  CLI::App* const data = app.add_subcommand("data", "Fetch, look at, convert and pack datasets");
  data->callback([data] {
    if (data->get_subcommands().empty()) {
      throw UsageError("the word after cohort data is fetch, info, convert or pack (see cohort data --help)");
    }
  });
  addFetch(*data, exitCode);
  addImageCommands(*data, exitCode);
}

}  // namespace cohort
