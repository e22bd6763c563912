// `cohort bench layer`. Private to cli.
#pragma once

namespace CLI {
class App;
}

namespace cohort {

// Below `cohort bench`; where it runs, it sets `exitCode`.
void addLayerBench(CLI::App& bench, int& exitCode);

}  // namespace cohort
