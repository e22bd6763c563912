#include "launch/center_supervisor.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "launch/center_file.h"
#include "launch/center_places.h"
#include "launch/child_process.h"
#include "launch/folders.h"
#include "launch/member_process.h"
#include "launch/process_end.h"
#include "launch/run_end.h"
#include "launch/supervisor_link.h"
#include "launch/worker_watch.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kLook{50};
constexpr double kFarewellSeconds = 30;
constexpr double kLastWordSeconds = 3;  // where no server is left to tell a worker that the run is over
constexpr double kListenSeconds = 2;    // after which a server listens at an address that cannot be looked at

// Done, or asked to stop.
bool isGood(int code) {
  return code == 0 || code == kResumeCode;
}

// Ended by a signal, and not by itself.
bool isKilled(int code) {
  return code > 128;
}

class CenterSupervisor {
 public:
  CenterSupervisor(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen)
      : options_(options),
        job_(job),
        screen_(screen),
        watch_(fifoOf(job.path(), options), stallLimits(options.common.stallSeconds, options.recoverySeconds),
               screen),
        share_(options.share
                   ? *options.share
                   : wholeCenter(options.servers, sockets_.emplace(temporaryFolder() / "cohort").path())),
        logs_(job.path() / "logs"),
        snapshots_(snapshotFolder(job.path())),
        servers_(share_.servers.size()),
        members_(static_cast<std::size_t>(options.common.workers / options.groupSize)),
        end_(job.path()),
        random_(options.common.chaos.value_or(0)) {
    makeFolder(logs_);
    if (options.share) watch_.endOnlyByInterrupts();
  }
  ~CenterSupervisor();
  CenterSupervisor(const CenterSupervisor&) = delete;
  CenterSupervisor& operator=(const CenterSupervisor&) = delete;

  int run();

 private:
  // What was started, and how it fares.
  struct Fate {
    std::optional<int> code{};
    bool wasAskedToStop = false;
    int fruitless = 0;  // deaths in a row between which the run made no step
    Step lastDeath = -1;
  };
  struct Server : Fate {
    std::unique_ptr<ChildProcess> process{};
    Clock::time_point started{};
  };
  // A worker, or a group of them.
  struct Member : Fate {
    std::unique_ptr<MemberProcess> process{};
  };

  bool isWhole() const { return !options_.share; }
  int serverNumber(int index) const { return share_.servers[static_cast<std::size_t>(index)]; }
  // The number of a member's first worker, and the member that a worker belongs to.
  int firstOf(int member) const { return share_.firstWorker + member * options_.groupSize; }
  int memberOf(int worker) const { return (worker - share_.firstWorker) / options_.groupSize; }
  bool hasGroups() const { return options_.groupSize > 1; }
  // Of workers that are in groups with others' workers.
  bool hasFarGroups() const { return !options_.groups.empty(); }
  std::string againText(int member) const;
  const std::string& addressOf(int server) const {
    return share_.addresses[static_cast<std::size_t>(server)];
  }
  std::string logOf(const char* kind, int number) const {
    return (logs_ / fmt::format("{}-{}.txt", kind, number)).string();
  }
  std::string supervisorVariable() const {
    return fmt::format("{}={}", kSupervisorVariable, fs::absolute(watch_.fifo()).string());
  }
  void removeAllSnapshots() const noexcept;
  void startServer(int index);
  void startMember(int index);
  bool hasServer() const { return !servers_.empty(); }
  bool canHearStop() const;
  void passOnStop();
  void lookAtMembers();
  std::optional<int> endOf(int index);
  void forgetMember(int index);
  void lookAtServers();
  std::string causeOf(const std::string& name, const std::string& log, int code);
  std::string causeOf(int member, int code);
  void memberDied(int index, int code);
  void serverDied(int index, int code);
  void countDeath(Fate& fate, const std::string& cause) const;
  bool hasOthers() const { return !isWhole() || members_.size() > 1; }
  int exitCode() const;
  void makeChaos();
  void endStalled();
  // Then the run is over for all.
  bool isAnyDone() const {
    return std::ranges::any_of(members_,
                               [](const Member& member) { return member.code && isGood(*member.code); });
  }
  bool areServersGone() const {
    return std::ranges::all_of(servers_,
                               [](const Server& server) { return server.process->exitCode().has_value(); });
  }
  bool isRunning() const {
    const auto runs = [](const Fate& fate) { return !fate.code; };
    // Workers elsewhere may still take their leave of a server here.
    const bool isServing = !isWhole() && std::ranges::any_of(servers_, runs);
    return isServing || std::ranges::any_of(members_, runs);
  }
  bool isTooLateToTrain() const;

  const CenterSupervisorOptions& options_;
  const JobDirectory& job_;
  Screen& screen_;
  WorkerWatch watch_;
  std::optional<ScratchFolder> sockets_;  // where all is here
  CenterShare share_;
  fs::path logs_;
  fs::path snapshots_;
  std::vector<Server> servers_;
  std::vector<Member> members_;
  RunEndWatch end_;
  std::mt19937_64 random_;
  std::optional<CenterFile> file_;
  std::optional<Clock::time_point> chaosAt_;
  std::optional<Clock::time_point> stopAsked_;
};

// Before what its processes use goes, they do.
CenterSupervisor::~CenterSupervisor() {
  members_.clear();
  servers_.clear();
  if (isWhole()) removeAllSnapshots();
}

void CenterSupervisor::removeAllSnapshots() const noexcept {
  std::error_code ignored;
  fs::remove_all(snapshots_, ignored);
}

void CenterSupervisor::startServer(int index) {
  const int number = serverNumber(index);
  std::error_code ignored;
  if (const fs::path socket = socketOf(addressOf(number)); !socket.empty()) fs::remove(socket, ignored);
  Server& server = servers_[static_cast<std::size_t>(index)];
  server.code.reset();
  server.wasAskedToStop = false;
  server.started = Clock::now();
  const std::vector<std::string> words = serverCommand(options_, share_, index, job_.path());
  server.process = std::make_unique<ChildProcess>(words.front(), words, logOf("server", number),
                                                  std::vector{supervisorVariable()}, SIGKILL);
}

void CenterSupervisor::startMember(int index) {
  const int first = firstOf(index);
  MemberProcess::Options options{.command = options_.common.command,
                                 .log = hasGroups() ? logOf("group", index) : logOf("worker", first),
                                 .supervisor = supervisorVariable(),
                                 .first = first};
  options.command.insert(options.command.end(),
                         {"--join", fmt::format("{}", fmt::join(share_.addresses, ","))});
  const auto cores = options_.cores.begin() + std::ptrdiff_t{index} * options_.groupSize;
  options.cores.assign(cores, cores + options_.groupSize);
  if (hasFarGroups()) options.group = options_.groups[static_cast<std::size_t>(index)];
  Member& member = members_[static_cast<std::size_t>(index)];
  member.code.reset();
  member.wasAskedToStop = false;
  member.process.reset();  // what is left of it
  member.process = std::make_unique<MemberProcess>(options);
}

// Before it listens, a server does not know what to do with a signal.
bool CenterSupervisor::canHearStop() const {
  const fs::path socket = socketOf(addressOf(serverNumber(0)));
  std::error_code none;
  if (!socket.empty()) return fs::exists(socket, none);
  return secondsSince(servers_.front().started) > kListenSeconds;
}

// A center that stops has its chief write a checkpoint first. A server that died in between has to be asked again.
void CenterSupervisor::passOnStop() {
  if (!watch_.isStopping()) return;
  if (!stopAsked_) stopAsked_ = Clock::now();
  if (hasServer()) {
    Server& server = servers_.front();
    // Of several processes that are told the same, the first server's sees to it.
    const bool isAnothers = share_.stop == CenterShare::Stop::Run && serverNumber(0) != 0;
    if (isAnothers || server.wasAskedToStop || !canHearStop()) return;
    server.process->signal(SIGTERM);
    server.wasAskedToStop = true;
  } else if (share_.stop == CenterShare::Stop::Leave) {
    for (Member& member : members_) {
      if (std::exchange(member.wasAskedToStop, true)) continue;
      member.process->signal(kLeaveSignal);
    }
  }
}

// Asked to stop before there was anything to keep.
bool CenterSupervisor::isTooLateToTrain() const {
  if (!watch_.isStopping() || watch_.heard().hasTrained) return false;
  if (members_.empty()) return stopAsked_ && secondsSince(*stopAsked_) > options_.recoverySeconds;
  return hasServer() || share_.stop == CenterShare::Stop::Run;  // workers that were told to leave do so
}

// A sentence about one that died, with its own last words where it had some. Throws those that no other start would change: the
// user's to mend, or there from the beginning.
std::string CenterSupervisor::causeOf(const std::string& name, const std::string& log, int code) {
  watch_.listen(std::chrono::milliseconds(0));
  const Step step = watch_.heard().step;
  // One that misses others of its group may find them yet.
  const auto isFinal = [&](int one) {
    return !watch_.heard().hasTrained && !(hasFarGroups() && one == kPeerCode);
  };
  std::string cause = fmt::format("{} {} after step {}", name, deathText(code), step);
  for (const WorkerMessage& failure : watch_.takeFailures()) {
    if (failure.exitCode == kUsageCode || isFinal(failure.exitCode)) throwFailure(failure);
    if (nameOf(failure) == name)
      cause = fmt::format("{} failed after step {}: {}", name, step, unfinished(failure.text));
  }
  if (isFinal(code) && !isKilled(code)) throw PeerError(fmt::format("{}; see {}", cause, log));
  return cause;
}

// Of a group, the worker counts that took the others with it.
std::string CenterSupervisor::causeOf(int member, int code) {
  const MemberProcess::Death death = members_[static_cast<std::size_t>(member)].process->deathOf(code);
  const std::string log = hasGroups() ? logOf("group", member) : logOf("worker", firstOf(member));
  if (death.worker) return causeOf(fmt::format("worker {}", *death.worker), log, death.code);
  return causeOf(fmt::format("the mpirun of group {}", member), log, death.code);
}

// Nothing of it is left, and nobody waits for its signs.
void CenterSupervisor::forgetMember(int index) {
  for (int worker = firstOf(index); worker < firstOf(index + 1); ++worker) {
    if (hasGroups()) watch_.signal(worker, SIGKILL);  // one that was frozen stays
    watch_.restart(worker);
  }
}

std::string CenterSupervisor::againText(int member) const {
  const int first = firstOf(member);
  if (hasFarGroups()) {
    const auto size = static_cast<int>(options_.groups[static_cast<std::size_t>(member)].size());
    const int begin = first / size * size;
    return fmt::format("starting it again, to meet its group (workers {} to {})", begin, begin + size - 1);
  }
  const std::string who =
      hasGroups() ? fmt::format("its group (workers {} to {})", first, firstOf(member + 1) - 1) : "it";
  return fmt::format("{}starting {} again", hasOthers() ? "the others go on, " : "", who);
}

void CenterSupervisor::memberDied(int index, int code) {
  const std::string cause = causeOf(index, code);
  screen_.endProgress();
  if (watch_.isStopping()) {
    screen_.warn(fmt::format(
        "{}, while the run was asked to stop; {}", cause,
        isRunning() ? "the others go on to its checkpoint"
                    : fmt::format("the same command goes on from {}", placeText(newestCheckpoint(job_)))));
    return;
  }
  countDeath(members_[static_cast<std::size_t>(index)], cause);
  screen_.warn(fmt::format("{}; {}", cause, againText(index)));
  forgetMember(index);
  startMember(index);
}

void CenterSupervisor::serverDied(int index, int code) {
  const int number = serverNumber(index);
  const std::string cause = causeOf(fmt::format("server {}", number), logOf("server", number), code);
  countDeath(servers_[static_cast<std::size_t>(index)], cause);
  screen_.endProgress();
  screen_.warn(cause + "; starting it again");
  startServer(index);
}

void CenterSupervisor::countDeath(Fate& fate, const std::string& cause) const {
  const Step step = watch_.heard().step;
  fate.fruitless = step > fate.lastDeath ? 1 : fate.fruitless + 1;
  fate.lastDeath = step;
  if (fate.fruitless <= options_.common.maxRestarts) return;
  throw PeerError(fmt::format("{}; given up after {} restarts without a step (--max-restarts)", cause,
                              options_.common.maxRestarts));
}

void CenterSupervisor::lookAtServers() {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    if (server.code) continue;
    server.code = server.process->exitCode();
    if (server.code && !isGood(*server.code) && !isAnyDone()) serverDied(static_cast<int>(i), *server.code);
  }
}

// mpirun ends well where all of its workers do: what their end means, they tell themselves.
std::optional<int> CenterSupervisor::endOf(int index) {
  const std::optional<int> code = members_[static_cast<std::size_t>(index)].process->exitCode();
  if (!hasGroups() || code != 0) return code;
  watch_.listen(std::chrono::milliseconds(0));
  return watch_.finished(firstOf(index)).value_or(0);
}

void CenterSupervisor::lookAtMembers() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.code) continue;
    member.code = endOf(static_cast<int>(i));
    if (!member.code || isGood(*member.code) || isAnyDone()) continue;
    // One that was started again when others, elsewhere, were already taking their leave found nobody.
    const bool isLost = !isWhole() && member.code == kPeerCode;
    if (const std::optional<RunEnd> end = isLost ? end_.look() : std::nullopt) {
      member.code = end->isInterrupted ? kResumeCode : 0;
    } else {
      memberDied(static_cast<int>(i), *member.code);
    }
  }
}

// At random moments of training, a random worker is killed or, one time in five, frozen.
void CenterSupervisor::makeChaos() {
  if (!options_.common.chaos || !watch_.heard().hasTrained || members_.empty()) return;
  // A group takes a while to start: were it killed again meanwhile, no run would end.
  if (hasGroups() && !watch_.knowsAll()) return chaosAt_.reset();
  if (!chaosAt_) chaosAt_ = Clock::now() + std::chrono::milliseconds(200 + random_() % 1800);
  if (Clock::now() < *chaosAt_) return;
  chaosAt_.reset();
  const int number =
      share_.firstWorker + static_cast<int>(random_() % static_cast<std::uint64_t>(options_.common.workers));
  const bool freeze = random_() % 5 == 0;
  Member& member = members_[static_cast<std::size_t>(memberOf(number))];
  if (!watch_.isKnown(number) || member.code) return;
  screen_.print(fmt::format("chaos: {} worker {}", freeze ? "freezing" : "killing", number));
  member.lastDeath = -1;
  watch_.signal(number, freeze ? SIGSTOP : SIGKILL);
}

// A worker that stands still is taken for dead, with its group.
void CenterSupervisor::endStalled() {
  const std::optional<WorkerWatch::Stalled> stalled = watch_.stalled();
  if (!stalled) return;
  const int index = memberOf(stalled->worker);
  Member& member = members_[static_cast<std::size_t>(index)];
  forgetMember(index);
  if (member.code) return;
  screen_.endProgress();
  screen_.warn(stalled->sentence);
  // mpirun ends when its workers have, and takes away what they leave in shared memory.
  member.process->signal(hasGroups() && stalled->hasStarted ? SIGTERM : SIGKILL);
}

// When all have ended, or need not be waited for.
int CenterSupervisor::exitCode() const {
  const auto anyEnded = [this](int code) {
    const auto hasEnded = [code](const Fate& fate) { return fate.code == code; };
    return members_.empty() ? std::ranges::any_of(servers_, hasEnded)
                            : std::ranges::any_of(members_, hasEnded);
  };
  // Where all died after they were asked to stop, nobody ended well.
  return anyEnded(kResumeCode) || !anyEnded(0) ? kResumeCode : 0;
}

int CenterSupervisor::run() {
  if (isWhole()) removeCenterLeftovers(job_.path());
  if (share_.isFirst) {
    file_.emplace(job_.path(), 0, share_.addresses,
                  share_.credentials.empty() ? fs::path() : fs::absolute(share_.credentials));
  }
  watch_.atSecondSignal([this] {
    if (file_) file_->remove();
    if (isWhole()) removeAllSnapshots();
    std::error_code ignored;
    if (sockets_) fs::remove_all(sockets_->path(), ignored);
  });
  const int together = hasGroups() || hasFarGroups() ? options_.groupSize : 0;
  watch_.begin(options_.common.workers, share_.firstWorker, together);
  for (std::size_t i = 0; i < servers_.size(); ++i) startServer(static_cast<int>(i));
  for (std::size_t i = 0; i < members_.size(); ++i) startMember(static_cast<int>(i));
  std::optional<Clock::time_point> farewell;
  while (isRunning()) {
    watch_.listen(kLook);
    passOnStop();
    if (isTooLateToTrain()) return kResumeCode;
    makeChaos();
    endStalled();
    lookAtMembers();
    lookAtServers();
    if (!isAnyDone()) continue;
    if (!farewell) farewell = Clock::now();
    if (secondsSince(*farewell) > (isWhole() && areServersGone() ? kLastWordSeconds : kFarewellSeconds))
      break;
  }
  watch_.listen(std::chrono::milliseconds(0));
  if (!isWhole()) removeSnapshots(snapshots_, share_.servers);
  return exitCode();
}

}  // namespace

int superviseCenter(const CenterSupervisorOptions& options, const JobDirectory& job, Screen& screen) {
  return CenterSupervisor(options, job, screen).run();
}

}  // namespace cohort
