#include "cli/place_flags.h"

#include <CLI/CLI.hpp>

#include "cluster/address.h"

namespace cohort {

void PlaceFlags::addTo(CLI::App& command) {
  command
      .add_option("--ps-hosts", hosts.psHosts, "a cluster by name: its servers, in their order (may be none)")
      ->type_name("HOST:PORT,...");
  command.add_option("--worker-hosts", hosts.workerHosts, "its workers, the chief first; also n[1-4]:2222")
      ->type_name("HOST:PORT,...");
  command.add_option("--job-name", hosts.jobName, "what this process is there: ps, worker or evaluator")
      ->type_name("NAME");
  command.add_option("--task-index", hosts.taskIndex, "and which of them, from 0 on")->type_name("K");
  command
      .add_option("--server-tasks", serverTasks,
                  "of srun's or mpirun's, how many serve, or which ranks (0,3; 0-1)")
      ->type_name("TASKS");
  command
      .add_option("--server-port", serverPort,
                  "where these listen; on a host, one after the other (default: any)")
      ->type_name("P")
      ->check(CLI::Range(1, kLargestPort));
}

}  // namespace cohort
