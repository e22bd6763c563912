#include "launch/slurm_client.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "launch/child_process.h"
#include "launch/find_program.h"
#include "launch/folders.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

struct Answer {
  int code = 0;
  std::string text;
};

Answer ask(const std::vector<std::string>& words) {
  const fs::path program =
      findProgram(words.front(), "which is SLURM's; run this on a machine of a SLURM cluster");
  const ScratchFolder scratch(temporaryFolder() / "cohort-slurm");
  const fs::path output = scratch.path() / "output";
  ChildProcess process(program, words, output);
  std::optional<int> code;
  while (!(code = process.exitCode())) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Answer answer{.code = *code, .text = readWholeFile(output)};
  while (answer.text.ends_with('\n')) answer.text.pop_back();
  return answer;
}

// The value of NAME=VALUE among others with blanks between; empty where there is none.
std::string valueOf(std::string_view text, std::string_view name) {
  const std::string begin = fmt::format("{}=", name);
  for (std::size_t at = 0; (at = text.find(begin, at)) != std::string_view::npos; at += begin.size()) {
    if (at > 0 && text[at - 1] != ' ') continue;
    const std::string_view rest = text.substr(at + begin.size());
    return std::string(rest.substr(0, rest.find_first_of(" \n")));
  }
  return "";
}

// SLURM's words for nothing.
std::string without(const std::string& text, std::string_view nothing) {
  return text == nothing ? "" : text;
}

// Its leading digits; 0 where there are none.
int numberAtBegin(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

bool SlurmJobState::isOver() const {
  constexpr std::array<std::string_view, 8> kOver = {"COMPLETED", "FAILED",        "CANCELLED", "TIMEOUT",
                                                     "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"};
  return std::ranges::find(kOver, state) != kOver.end();
}

std::optional<std::string> parseSubmission(const std::string& text) {
  const std::string line = text.substr(text.rfind('\n') + 1);
  std::string id = line.substr(0, line.find(';'));
  if (id.empty() || id.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return id;
}

std::optional<SlurmJobState> parseJobState(const std::string& text) {
  const std::string state = valueOf(text, "JobState");
  if (state.empty()) return std::nullopt;
  return SlurmJobState{.state = state,
                       .reason = without(valueOf(text, "Reason"), "None"),
                       .nodes = without(valueOf(text, "NodeList"), "(null)"),
                       .exitCode = numberAtBegin(valueOf(text, "ExitCode")),
                       .restarts = numberAtBegin(valueOf(text, "Restarts"))};
}

std::string toText(const std::string& job, const SlurmJobState& state) {
  std::string text = fmt::format("job {}: {}", job, state.state);
  if (!state.reason.empty()) text += fmt::format(" ({})", state.reason);
  if (!state.nodes.empty()) text += fmt::format(" on {}", state.nodes);
  if (state.restarts > 0) text += fmt::format(", start {}", state.restarts + 1);
  return text;
}

std::string submitJob(const fs::path& script) {
  const Answer answer = ask({"sbatch", "--parsable", script.string()});
  const std::optional<std::string> id = answer.code == 0 ? parseSubmission(answer.text) : std::nullopt;
  if (!id) throw IoError(fmt::format("sbatch did not take {}: {}", script.string(), answer.text));
  return *id;
}

std::optional<SlurmJobState> stateOfJob(const std::string& job) {
  const Answer answer = ask({"scontrol", "--oneliner", "show", "job", job});
  if (answer.code == 0) return parseJobState(answer.text);
  if (answer.text.find("Invalid job id") != std::string::npos) return std::nullopt;
  throw IoError(fmt::format("scontrol does not tell of job {}: {}", job, answer.text));
}

void cancelJob(const std::string& job) {
  const Answer answer = ask({"scancel", job});
  if (answer.code != 0) throw IoError(fmt::format("scancel did not end job {}: {}", job, answer.text));
}

}  // namespace cohort
