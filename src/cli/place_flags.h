// The flags by which a user says where the processes of a run are, and who of them serve. Private to cli.
#pragma once

#include <optional>
#include <string>

#include "cluster/host_flags.h"

namespace CLI {
class App;
}

namespace cohort {

struct PlaceFlags {
  HostFlags hosts = {};
  std::optional<std::string> serverTasks = {};
  std::optional<int> serverPort = {};

  void addTo(CLI::App& command);
};

}  // namespace cohort
