// cohort data info, convert and pack: what is done with images that are here. Private to cli.
#pragma once

#include <CLI/CLI.hpp>

namespace cohort {

// Adds the three to `cohort data`.
void addImageCommands(CLI::App& data, int& exitCode);

}  // namespace cohort
