// Folders that a run needs beside its job directory. Any thread.
#pragma once

#include <filesystem>

namespace cohort {

// Makes it, and those above it. IoError where that fails.
void makeFolder(const std::filesystem::path& path);

// Where temporary files go (TMPDIR). IoError where there is no such folder.
std::filesystem::path temporaryFolder();

}  // namespace cohort
