// A command that lives no longer than someone who holds its standard input: what `cohort launch` starts on a host, so that
// nothing stays there when the launcher, or the connection to it, has gone.
//
// The other end speaks in lines: "alive", now and then; "stop", which the command gets as SIGTERM; "end", which kills it. When the
// input ends, or is silent for kSilentSeconds (a connection may go without a sign), the command is killed too: its run goes on
// from what it has written, as after any death.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort {

inline constexpr std::string_view kAliveWord = "alive\n";
inline constexpr std::string_view kStopWord = "stop\n";
inline constexpr std::string_view kEndWord = "end\n";
inline constexpr double kSilentSeconds = 60;

// Runs it with this process's output and no input; SIGINT, SIGTERM and SIGUSR1 are passed on. Returns its exit code, or 128 + the
// signal that ended it. UsageError where there is no such program; IoError where it cannot be started.
int attend(const std::vector<std::string>& command);

}  // namespace cohort
