// What a wrong command line is told. Private to cli.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cohort {

// CLI11's message, with the nearest flag where one is unknown. `app` has just refused its words with `error`.
std::string parseMessage(const CLI::App& app, const CLI::ParseError& error);

}  // namespace cohort
