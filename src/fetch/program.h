// Starts other programs: without a shell, and waits for their end. Private to fetch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

// Runs `command` (looked for in PATH) in `folder`, with nothing to read. The child has an empty signal mask, whatever the
// caller's is, and ends with the calling thread. Unavailable where it cannot be started or fails: the clause has the
// program's name and the end of what it said.
void runProgram(const std::vector<std::string>& command, const std::filesystem::path& folder);

}  // namespace cohort
