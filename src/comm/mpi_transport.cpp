#include "comm/mpi_transport.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "comm/communicator.h"
#include "comm/mpi_messages.h"

namespace cohort {
namespace {

class MpiTransport : public Transport {
 public:
  MpiTransport(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  MessageId add(const Message& message) override { return messages_.add(message, MPI_COMM_WORLD); }
  void remove(MessageId id) override { messages_.remove(id); }
  void start(MessageId id) override { messages_.start(id); }
  void poll(std::vector<MessageId>& done) override { messages_.poll(done); }

 private:
  int rank_;
  int size_;
  MpiMessages messages_;
};

// MPI promises few of them.
void requireTags() {
  const int largest = largestTag();
  if (largest < Communicator::kAllTags) {
    throw PeerError(
        fmt::format("this MPI has tags up to {} only, and {} are needed; another transport of it (such as "
                    "mpirun --mca pml ob1) has more",
                    largest, Communicator::kAllTags));
  }
}

// Everybody has spoken to everybody afterwards. Of two, the first one speaks first: where both begin at once, Open MPI's TCP may lose
// its way between two connections, and with it the process.
void greetAll() {
  int size = 1;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  constexpr int kTag = 0;
  int word = 0;
  const auto say = [&](int other) {
    requireMpi(MPI_Send(&word, 1, MPI_INT, other, kTag, MPI_COMM_WORLD), "MPI_Send");
  };
  const auto hear = [&](int other) {
    requireMpi(MPI_Recv(&word, 1, MPI_INT, other, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  };
  // All go through the pairs in the same order, so that nobody waits for one who waits for him.
  for (int other = 0; other < size; ++other) {
    if (rank < other) say(other);
    if (rank != other) hear(other);
    if (rank > other) say(other);
  }
}

// Workers of one host exchange messages through memory with a name. Once all have it, nobody needs the name any more, and
// without one it goes with its last user, however that ends.
std::set<std::string> forgetSharedMemoryNames() {
  greetAll();
  requireMpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> names;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find('/');  // in /dev/shm, or where a setting of Open MPI says
    if (line.find("/vader_segment.") != std::string::npos)
      names.insert(line.substr(at, line.find(' ', at) - at));
  }
  for (const std::string& name : names) ::unlink(name.c_str());
  return names;
}

// MPI_Finalize wants to take the names away itself, and complains where it cannot. It begins when all workers are there.
void restoreNames(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const Descriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
}

// An mpirun that cannot reach one of its hosts any more waits a quarter of an hour for it, though its workers are gone: it is
// ended, where it is this process's parent, when it had time enough to end by itself.
void endLauncherLater() {
  constexpr int kMilliseconds = 10'000;
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", ::getppid())), name);
  if (name != "mpirun" && name != "mpiexec" && name != "orterun" && name != "prterun") return;
  // The system's header for these two has no C++ in mind.
  const int launcher = static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0));
  if (launcher < 0 || ::fork() != 0) return;
  // Of several threads only this one is here: nothing but system calls. mpirun ends its children's groups, and waits for
  // their output.
  ::setsid();
  ::close_range(0, static_cast<unsigned>(launcher) - 1, 0);
  ::close_range(static_cast<unsigned>(launcher) + 1, ~0U, 0);
  pollfd poll{.fd = launcher, .events = POLLIN, .revents = 0};
  if (::poll(&poll, 1, kMilliseconds) == 0) ::syscall(SYS_pidfd_send_signal, launcher, SIGKILL, nullptr, 0);
  ::_exit(0);
}

}  // namespace

bool startedByMpi() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
}

MpiSession::MpiSession() {
  int provided = 0;
  // One thread at a time calls MPI, not always the same one.
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_SERIALIZED) {
    throw PeerError("MPI cannot be started");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  requireTags();
  sharedMemoryNames_ = forgetSharedMemoryNames();
}

MpiSession::~MpiSession() {
  restoreNames(sharedMemoryNames_);
  MPI_Finalize();
}

void MpiSession::abort(int exitCode) {
  endLauncherLater();
  MPI_Abort(MPI_COMM_WORLD, exitCode);
  std::_Exit(exitCode);
}

std::unique_ptr<Transport> mpiTransport(const MpiSession& session) {
  return std::make_unique<MpiTransport>(session.rank(), session.size());
}

}  // namespace cohort
