// cohort serve: one server of a center.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file_lock.h"
#include "base/host.h"
#include "center/client.h"
#include "center/server.h"
#include "center/status.h"
#include "cli/center_options.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "launch/center_file.h"
#include "launch/folders.h"
#include "launch/supervisor_link.h"
#include "launch/worker_status.h"
#include "report/console.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr double kLook = 0.1;     // seconds
constexpr double kFarewell = 10;  // for workers to go, when the run is over

// What lets others in, and where that is written.
struct Admission {
  std::optional<Credentials> credentials{};  // nothing: no TLS
  fs::path file{};
};

bool isThere(const fs::path& path) {
  std::error_code unreadable;  // whoever opens it says why
  return fs::exists(path, unreadable);
}

// Given, or made for this run where strangers could come.
Admission admissionOf(const ServeArguments& arguments, Console& console) {
  if (!arguments.credentials.empty()) return {readCredentials(arguments.credentials), arguments.credentials};
  if (arguments.insecure || isPrivateAddress(arguments.listen)) return {};
  if (arguments.index > 0) {
    throw UsageError("give --credentials FILE: all servers of a run have the file that the first one makes");
  }
  const fs::path file = fs::path(arguments.jobDirectory) / "credentials.pem";
  if (!isThere(file)) writeCredentials(file, makeCredentials(arguments.jobDirectory));
  console.print(
      fmt::format("workers and other servers need {} (--credentials); keep it secret", file.string()));
  return {readCredentials(file), file};
}

// Where this server keeps what it has. Servers of other numbers may share the folder.
class ServerFolder {
 public:
  // UsageError where another server of this number is there.
  ServerFolder(fs::path path, int index) : path_(std::move(path)), index_(index) {
    makeFolder(path_);
    const fs::path lock = path_ / fmt::format("server-{}.lock", index);
    lock_ = tryLock(lock);
    if (!lock_ && errno == EWOULDBLOCK) {
      throw UsageError(
          fmt::format("another server {} is using {}; give another --job-dir, or another --server-index",
                      index, path_.string()));
    }
    if (!lock_) throw IoError(fmt::format("cannot lock {}: {}", lock.string(), systemMessage(errno)));
    removeLeftovers();
  }

  fs::path snapshot() const { return path_ / fmt::format("server-{}.snapshot", index_); }
  const fs::path& path() const { return path_; }
  // Empty: none.
  fs::path journals(const ServeArguments& arguments) const {
    if (arguments.noJournal) return {};
    return arguments.journal.empty() ? path_ / "journal" : fs::path(arguments.journal);
  }

 private:
  // What a server that was killed had half written.
  void removeLeftovers() const {
    const std::string begin = fmt::format("server-{}.snapshot{}", index_, kTemporaryMark);
    std::error_code ignored;  // they do no harm, they only take room
    for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored)) {
      if (entry.path().filename().string().starts_with(begin)) fs::remove(entry.path(), ignored);
    }
  }

  fs::path path_;
  int index_;
  Descriptor lock_;
};

// What the server says of itself in a run's folder, about once a second, while this lives.
class ServerSign {
 public:
  ServerSign(fs::path directory, int index, CenterServer& server)
      : directory_(std::move(directory)), connector_(connectorTo({&server})) {
    status_.isServer = true;
    status_.name = std::to_string(index);
    status_.host = hostName();
    status_.process = ::getpid();
    status_.mayRest = true;
  }
  ~ServerSign() { removeStatus(directory_, status_); }
  ServerSign(const ServerSign&) = delete;
  ServerSign& operator=(const ServerSign&) = delete;

  void tell() {
    constexpr double kBetween = 1;   // seconds
    constexpr double kPatience = 1;  // for its own thread to answer
    if (told_ && secondsSince(*told_) < kBetween) return;
    told_ = Clock::now();
    try {
      const ServerStatus now = fetchStatus(*connector_, kPatience).front();
      say(now.isOpen ? "serving" : "waiting for a run");
      status_.step = now.version;
    } catch (const PeerError&) {
      say("busy");
    }
    status_.doingSeconds = secondsSince(since_);
    status_.written =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    writeStatus(directory_, status_);
  }

 private:
  void say(const char* doing) {
    if (status_.doing != doing) since_ = Clock::now();
    status_.doing = doing;
  }

  fs::path directory_;
  std::shared_ptr<Connector> connector_;
  WorkerStatus status_;
  std::optional<Clock::time_point> told_;
  Clock::time_point since_ = Clock::now();
};

// For those on this machine: an address to connect to, where the server listens at all that it has.
std::string reachable(const std::string& address) {
  for (const auto& [any, loopback] : {std::pair{"0.0.0.0:", "127.0.0.1:"}, std::pair{"[::]:", "[::1]:"}}) {
    if (address.starts_with(any)) return loopback + address.substr(std::string_view(any).size());
  }
  return address;
}

// A server that goes on with an earlier one's run must not do so without a word.
void sayRestored(CenterServer& server, const ServeArguments& arguments, const fs::path& snapshot,
                 Console& console) {
  constexpr double kPatience = 10;  // seconds
  const ServerStatus status = fetchStatus(*connectorTo({&server}), kPatience).front();
  if (!status.isOpen) return;
  console.print(fmt::format("goes on with {}, step {}, from {}; move that away to begin anew", status.rule,
                            arguments.index == 0 ? status.done : status.version, snapshot.string()));
}

void requireServeArguments(const ServeArguments& arguments) {
  if (arguments.index >= arguments.servers) {
    throw UsageError(fmt::format("--server-index {} of {} servers: they are numbered from 0 to {}",
                                 arguments.index, arguments.servers, arguments.servers - 1));
  }
  if (parseAddresses(arguments.listen, "--listen").size() > 1)
    throw UsageError("--listen takes one address: HOST:PORT (or unix:PATH)");
  if (arguments.jobDirectory.empty())
    throw UsageError("--job-dir needs a folder's name; without it, it is 'center'");
}

int serve(const ServeArguments& arguments, SupervisorLink& supervisor) {
  requireServeArguments(arguments);
  keepLargeBlocks();
  Console console(stdout, stderr, terminalOptions(Verbosity::Normal));
  const StopFlag& stop = stopOnSignals();
  // What was sent to all processes at once comes a second time from the supervisor.
  if (supervisor) ignoreFurtherSignals();
  const double snapshotSeconds = parseDuration(arguments.snapshotEvery, "--snapshot-every");
  const ServerFolder folder(arguments.jobDirectory, arguments.index);
  const bool hasSnapshot = snapshotSeconds > 0 && isThere(folder.snapshot());
  const Admission admission = admissionOf(arguments, console);
  CenterServer server({.index = arguments.index,
                       .count = arguments.servers,
                       .listen = arguments.listen,
                       .credentials = admission.credentials,
                       .snapshot = snapshotSeconds > 0 ? folder.snapshot() : "",
                       .snapshotSeconds = snapshotSeconds,
                       .journals = folder.journals(arguments),
                       .warn = [&](const std::string& what) {
                         console.warn(what);
                         supervisor.warn(fmt::format("server {}: {}", arguments.index, what));
                       }});
  if (hasSnapshot) sayRestored(server, arguments, folder.snapshot(), console);
  std::optional<CenterFile> file;  // a supervisor writes one for all servers
  if (!supervisor) {
    file.emplace(folder.path(), arguments.index, std::vector{reachable(server.address())},
                 admission.file.empty() ? fs::path() : fs::absolute(admission.file));
  }
  console.print(
      fmt::format("server {} of {} listens at {}", arguments.index, arguments.servers, server.address()));
  std::fflush(stdout);
  // A supervised one keeps its snapshots in a folder of their own.
  ServerSign sign(supervisor ? folder.path().parent_path() : folder.path(), arguments.index, server);
  std::optional<Clock::time_point> asked;
  while (!server.isOver(kLook)) {
    sign.tell();
    if (!stop) continue;
    const bool hasRun = server.halt();
    // Without a run there is nothing to keep; but a supervised server's workers are on their way back to it.
    if (!hasRun && !supervisor) return kResume;
    if (hasRun && !asked) console.print("asked to stop: the run ends after a checkpoint");
    if (hasRun) asked = asked.value_or(Clock::now());
  }
  const Clock::time_point over = Clock::now();
  while (server.hasWorkers() && secondsSince(over) < kFarewell) server.wait(kLook);
  return asked ? kResume : kSuccess;
}

}  // namespace

int credentialsCommand(const std::string& file) {
  if (isThere(file)) {
    throw UsageError(
        fmt::format("{} exists; whoever has a copy could no longer join. Give a new name", file));
  }
  writeCredentials(file, makeCredentials(fs::path(file).stem().string()));
  Console console(stdout, stderr, {});
  console.print(
      fmt::format("{} is for all servers and workers of a run (--credentials); keep it secret", file));
  return kSuccess;
}

int serveCommand(const ServeArguments& arguments) {
  const char* fifo = std::getenv(kSupervisorVariable);
  SupervisorLink supervisor(fifo == nullptr ? "" : fifo);
  try {
    return serve(arguments, supervisor);
  } catch (const std::exception& error) {
    // Its log has the sentence too.
    supervisor.serverFailed(arguments.index, error.what(), exitCodeOf(error));
    throw;
  }
}

}  // namespace cohort
