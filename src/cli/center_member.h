// One process of a cluster with a center: what it has been told, and its share of the work. Private to cli.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/scratch_folder.h"
#include "cli/train_request.h"
#include "cluster/cluster_map.h"
#include "launch/center_supervisor.h"
#include "train/job_directory.h"

namespace cohort {

struct CenterMembership {
  ClusterMap cluster{};
  std::vector<std::string> addresses{};  // of the servers
  std::filesystem::path directory{};
  std::filesystem::path credentials{};  // empty: nobody needs some
  CenterShare::Stop stop = CenterShare::Stop::Run;
  int workersEach = 1;              // that a member who is a worker starts
  std::vector<OwnedCores> cores{};  // for each of those here
  std::vector<std::vector<std::string>>
      groups{};  // of each: where its group meets; nothing where there are none
  std::unique_ptr<JobDirectory> job{};
  std::unique_ptr<ScratchFolder>
      sockets{};  // where servers of one host listen, and workers to their groups; whose it is
};

// Starts this member's share, and again what of it dies. Returns the exit code of the run.
int superviseMember(const RunContext& context, const TrainArguments& arguments,
                    const CenterMembership& membership);
// Whether server 0 is in this process: where nobody else serves, in the chief's.
bool isFirstServer(const ClusterMap& cluster);

// Settings that are as the cluster is, where each worker's process starts so many.
GivenSettings workersOf(const ClusterMap& cluster, int each = 1);
GivenSettings countsOf(const ClusterMap& cluster, int each = 1);

// Where a server or worker listens that others reach at this address.
std::string listenAddress(const std::string& address);

// Whether strangers could come.
bool needCredentials(const std::vector<std::string>& addresses, const TrainArguments& arguments);
// In a run's folder.
std::filesystem::path credentialsFile(const std::filesystem::path& directory);
void makeWhereMissing(const std::filesystem::path& credentials);

// Signals that come from now on wait for whoever reads them: before threads are made.
void blockSignals();

}  // namespace cohort
