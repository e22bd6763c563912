// cohort train as a task of srun or mpirun, of a run with a center.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/center_member.h"
#include "cli/ground_check.h"
#include "cli/group_meeting.h"
#include "cli/shared_directory.h"
#include "cli/terminal.h"
#include "cluster/group_places.h"
#include "cluster/reachable.h"
#include "cluster/task_map.h"
#include "comm/channel.h"
#include "comm/mpi_transport.h"
#include "launch/folders.h"
#include "launch/network.h"
#include "launch/worker_cores.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

constexpr int kControl = 0;

// Where each of the servers, and of the workers where they are in groups, can be reached.
struct MeetingAddresses {
  std::vector<std::string> servers{};
  std::vector<std::string> workers{};
};

// What a task tells of itself.
struct TaskWords {
  HostAddresses host{};
  std::vector<int> ports{};          // a server's, or those of a group's workers
  std::vector<std::string> sockets;  // those of a group's workers
};

Json toJson(const TaskWords& task) {
  Json json{{"addresses", Json::array()}, {"ports", task.ports}, {"sockets", task.sockets}};
  for (const NetworkAddress& address : task.host.addresses) {
    json["addresses"].push_back(
        {{"interface", address.interface}, {"address", address.address}, {"prefix", address.prefix}});
  }
  return json;
}

TaskWords taskWordsOf(const std::string& host, const Json& json) {
  TaskWords task{.host = {.host = host}, .ports = json.at("ports"), .sockets = json.at("sockets")};
  for (const Json& address : json.at("addresses")) {
    task.host.addresses.push_back({.interface = address.at("interface"),
                                   .address = address.at("address"),
                                   .prefix = address.at("prefix")});
  }
  return task;
}

// They meet by MPI before the run: each tells what it knows of its host, and the first one decides the rest.
class TaskMeeting {
 public:
  TaskMeeting(const RunContext& context, const TrainArguments& arguments, const MpiSession& session)
      : context_(context),
        arguments_(arguments),
        each_(std::max(1, arguments.workersPerTask)),
        workers_(mpiTransport(session)),
        channel_(workers_, kControl),
        cores_(gatherCores(channel_)) {}

  CenterMembership agree();

 private:
  void placeTasks();
  bool isInGroup() const { return groupSize_ > 1 && cluster_.self().role == Role::Worker; }
  MeetingAddresses gatherAddresses(const ScratchFolder* sockets);
  TaskWords ownWords(const ScratchFolder* sockets, std::vector<FreePort>& held) const;
  MeetingAddresses addressesOf(const std::vector<TaskWords>& tasks, const ScratchFolder* sockets) const;
  std::vector<std::vector<std::string>> groupsHere(const std::vector<std::string>& workers) const;
  std::vector<OwnedCores> coresHere() const;
  void lead(CenterMembership& membership) const;
  void admit(CenterMembership& membership, const MeetingAddresses& addresses) const;
  void lookAround() const;

  const RunContext& context_;
  const TrainArguments& arguments_;
  int each_;  // workers of a task that works
  Communicator workers_;
  Channel channel_;
  std::vector<WorkerCores> cores_;  // by rank
  ClusterMap cluster_{};
  int groupSize_ = 1;
  bool isOneHost_ = false;
};

void TaskMeeting::placeTasks() {
  std::vector<std::string> hosts;
  for (const WorkerCores& task : cores_) hosts.push_back(task.host);
  const TaskMap tasks = tasksOnHosts(hosts, workers_.rank());
  isOneHost_ = tasks.hosts().size() == 1;
  const Request all = requestOf(context_, arguments_, asOneEach(workers_.size() * each_));
  const auto servers = static_cast<int>(all.config.servers);
  cluster_ = withServers(tasks, chooseServerTasks(tasks, arguments_.place.serverTasks, servers),
                         arguments_.place.serverPort);
  // What does not fit so many workers is said before anything is begun.
  groupSize_ = groupSize(requestOf(context_, arguments_, countsOf(cluster_, each_)).config);
}

// Ports are kept from others until all have chosen.
TaskWords TaskMeeting::ownWords(const ScratchFolder* sockets, std::vector<FreePort>& held) const {
  const Member& self = cluster_.self();
  const std::optional<int> first = arguments_.place.serverPort;
  TaskWords own{.host = {.host = self.host, .addresses = networkAddresses()}, .sockets = {}};
  const auto takePort = [&](const auto& given) {
    own.ports.push_back(first ? given() : held.emplace_back(FreePort::any()).number());
  };
  if (self.role == Role::Server) takePort([&] { return *self.port; });
  for (int k = 0; k < each_ && isInGroup(); ++k) {
    takePort([&] { return groupPort(cluster_, self, k, *first); });
    own.sockets.push_back(groupSocket(sockets->path(), self.index * each_ + k));
  }
  return own;
}

// On the first task alone.
MeetingAddresses TaskMeeting::gatherAddresses(const ScratchFolder* sockets) {
  std::vector<FreePort> held;
  std::vector<TaskWords> tasks;
  for (const std::string& text : channel_.gather(toJson(ownWords(sockets, held)).dump(), "its addresses"))
    tasks.push_back(taskWordsOf(cores_[tasks.size()].host, Json::parse(text)));
  return workers_.isFirst() ? addressesOf(tasks, sockets) : MeetingAddresses{};
}

MeetingAddresses TaskMeeting::addressesOf(const std::vector<TaskWords>& tasks,
                                          const ScratchFolder* sockets) const {
  std::vector<HostAddresses> hosts;
  hosts.reserve(tasks.size());
  for (const TaskWords& task : tasks) hosts.push_back(task.host);
  MeetingAddresses addresses{.servers = std::vector<std::string>(cluster_.count(Role::Server))};
  std::vector<WorkerDoor> doors;  // members have the order of their ranks, as workers have
  for (const Member& member : cluster_.members) {
    const auto rank = static_cast<std::size_t>(*member.rank);
    const TaskWords& task = tasks[rank];
    const auto at = [&](std::size_t k) {
      return fmt::format("{}:{}", reachableAddress(hosts, rank), task.ports[k]);
    };
    if (member.role == Role::Server) {
      const auto index = static_cast<std::size_t>(member.index);
      // Those of one host need no port, and nobody else comes in there.
      addresses.servers[index] =
          isOneHost_ && !member.port
              ? fmt::format("unix:{}", (sockets->path() / fmt::format("server-{}", index)).string())
              : at(0);
    }
    for (std::size_t k = 0; k < task.sockets.size(); ++k)
      doors.push_back({.host = member.host, .socket = task.sockets[k], .address = at(k)});
  }
  addresses.workers = meetingPlaces(doors, groupSize_);
  return addresses;
}

std::vector<std::vector<std::string>> TaskMeeting::groupsHere(const std::vector<std::string>& workers) const {
  std::vector<std::vector<std::string>> groups;
  for (int k = 0; k < each_ && isInGroup(); ++k)
    groups.push_back(groupOf(workers, cluster_.self().index * each_ + k, groupSize_));
  return groups;
}

// A host's cores are for those of its tasks that work.
std::vector<OwnedCores> TaskMeeting::coresHere() const {
  const Member& self = cluster_.self();
  if (self.role != Role::Worker) return {};
  std::vector<WorkerCores> workers;
  for (const Member& member : cluster_.members) {
    if (member.role != Role::Worker) continue;
    workers.insert(workers.end(), static_cast<std::size_t>(each_),
                   cores_[static_cast<std::size_t>(*member.rank)]);
  }
  std::vector<OwnedCores> here;
  here.reserve(static_cast<std::size_t>(each_));
  for (int k = 0; k < each_; ++k) here.push_back(coresOfWorker(workers, self.index * each_ + k));
  return here;
}

// What the first task does for all.
void TaskMeeting::lead(CenterMembership& membership) const {
  const Request request = requestOf(context_, arguments_, countsOf(cluster_, each_));
  membership.directory =
      request.directory.empty() ? newJobDirectory(request.config.network) : request.directory;
  membership.job = std::make_unique<JobDirectory>(membership.directory, JobDirectory::Role::Supervisor);
  removeCenterLeftovers(membership.directory);
}

void TaskMeeting::admit(CenterMembership& membership, const MeetingAddresses& addresses) const {
  std::vector<std::string> all = addresses.servers;
  all.insert(all.end(), addresses.workers.begin(), addresses.workers.end());
  if (!needCredentials(all, arguments_)) return;
  membership.credentials = arguments_.credentials;
  if (membership.credentials.empty()) {
    membership.credentials = credentialsFile(membership.directory);
    makeWhereMissing(membership.credentials);
  }
}

void TaskMeeting::lookAround() const {
  const Member& self = cluster_.self();
  Console console(stdout, stderr, terminalOptions(arguments_.verbosity));
  checkGround(channel_, {.name = nameOf(self), .workers = self.role == Role::Worker ? each_ : 0}, context_,
              requestOf(context_, arguments_, countsOf(cluster_, each_)).config, console);
}

CenterMembership TaskMeeting::agree() {
  placeTasks();
  lookAround();
  CenterMembership membership{.cluster = cluster_, .workersEach = each_, .cores = coresHere()};
  if (workers_.isFirst()) lead(membership);
  if (isInGroup() || (workers_.isFirst() && isOneHost_))
    membership.sockets = std::make_unique<ScratchFolder>(temporaryFolder() / "cohort");
  const MeetingAddresses addresses = gatherAddresses(membership.sockets.get());
  if (workers_.isFirst()) admit(membership, addresses);
  const Json said{{"directory", membership.directory.string()},
                  {"servers", addresses.servers},
                  {"workers", addresses.workers},
                  {"credentials", membership.credentials.string()}};
  const Json heard = Json::parse(channel_.broadcast(said.dump(), "where the center is"));
  membership.directory = heard.at("directory").get<std::string>();
  membership.addresses = heard.at("servers").get<std::vector<std::string>>();
  membership.groups = groupsHere(heard.at("workers").get<std::vector<std::string>>());
  membership.credentials = heard.at("credentials").get<std::string>();
  if (!membership.job)
    membership.job = std::make_unique<JobDirectory>(membership.directory, JobDirectory::Role::Member);
  requireSharedDirectory(channel_, membership.directory);
  return membership;
}

}  // namespace

int trainAsTask(const RunContext& context, const TrainArguments& arguments) {
  blockSignals();  // those that come while the tasks meet are the supervisor's
  std::optional<CenterMembership> membership;
  {
    const MpiSession session;
    try {
      requireNoSingletons(session.size());
      if (session.size() > 1) membership = TaskMeeting(context, arguments, session).agree();
    } catch (const std::exception& error) {
      endAllTasks(session.rank(), error);
    }
  }
  if (!membership) {
    TrainArguments alone = arguments;
    const std::string each = std::to_string(std::max(1, arguments.workersPerTask));
    alone.layers.push_back({{"workers", {each}}});
    alone.words.insert(alone.words.end(), {"-o", "workers=" + each});
    return superviseWithCenter(alone, requestOf(context, alone));
  }
  return superviseMember(context, arguments, *membership);
}

}  // namespace cohort
