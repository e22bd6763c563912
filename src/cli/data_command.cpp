// cohort data …: what is done with datasets before training. A new subcommand is one function here, called by
// addDataCommands.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

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
  explicit FetchLines(Console& console) : console_(console) {}

  void trying(const std::string& source) override {
    console_.print("fetching " + source);
    if (!console_.live()) shown_ = Clock::now();
  }
  void transferred(const std::string& file, std::uint64_t bytes, std::uint64_t total) override {
    const Clock::time_point now = Clock::now();
    const bool last = total > 0 && bytes == total;
    if (!last && now - shown_ < (console_.live() ? kLiveEvery : kPlainEvery)) return;
    shown_ = now;
    const std::string of = total == 0 ? "" : fmt::format(" of {}", bytesText(static_cast<double>(total)));
    const std::string text = fmt::format("  {}: {}{}", file, bytesText(static_cast<double>(bytes)), of);
    if (console_.live() && !last) {
      console_.status(text);
    } else {
      console_.print(text);
    }
  }
  void unpacking(const std::string& file) override { console_.print(fmt::format("  unpacking {}", file)); }
  void unavailable(const std::string& source, const std::string& reason) override {
    console_.print(fmt::format("{} cannot be used: {}", source, reason));
  }

 private:
  static constexpr Clock::duration kLiveEvery = std::chrono::milliseconds(100);
  static constexpr Clock::duration kPlainEvery = std::chrono::seconds(5);

  Console& console_;
  Clock::time_point shown_;  // when the last line was
};

int fetchCommand(const FetchRequest& request) {
  Console console(stdout, stderr, terminalOptions(Verbosity::Normal));
  FetchLines lines(console);
  const FetchResult result = fetchDataset(request, lines);
  console.print(fmt::format("{} is complete in {}{}", request.dataset, result.directory.string(),
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
