#include "comm/mpi_transport.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "comm/communicator.h"

namespace cohort {
namespace {

void require(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw PeerError(fmt::format("{} failed: {}", call, std::string(text, static_cast<std::size_t>(length))));
}

class MpiTransport : public Transport {
 public:
  MpiTransport(int rank, int size) : rank_(rank), size_(size) {}
  ~MpiTransport() override {
    for (MPI_Request& request : requests_) {
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  MessageId add(const Message& message) override {
    // MPI counts in ints; large messages are floats, both ends see the same size, and 8 GiB are room enough.
    const std::size_t bytes = message.memory.size();
    const bool areFloats = bytes > INT_MAX && bytes % sizeof(float) == 0;
    const std::size_t items = areFloats ? bytes / sizeof(float) : bytes;
    COHORT_CHECK(items <= INT_MAX, "a message has less than 8 GiB");
    const int count = static_cast<int>(items);
    MPI_Datatype type = areFloats ? MPI_FLOAT : MPI_BYTE;
    MPI_Request request = MPI_REQUEST_NULL;
    require(message.direction == Message::Direction::Send
                ? MPI_Send_init(message.memory.data(), count, type, message.peer, message.tag, MPI_COMM_WORLD,
                                &request)
                : MPI_Recv_init(message.memory.data(), count, type, message.peer, message.tag, MPI_COMM_WORLD,
                                &request),
            "preparing a message");
    MessageId id = static_cast<MessageId>(requests_.size());
    if (free_.empty()) {
      requests_.push_back(request);
      // So that no step allocates.
      underWay_.reserve(requests_.size());
      idOf_.reserve(requests_.size());
      indices_.resize(requests_.size());
    } else {
      id = free_.back();
      free_.pop_back();
      requests_[static_cast<std::size_t>(id)] = request;
    }
    return id;
  }

  void remove(MessageId id) override {
    require(MPI_Request_free(&requests_[static_cast<std::size_t>(id)]), "MPI_Request_free");
    free_.push_back(id);
  }

  void start(MessageId id) override {
    MPI_Request& request = requests_[static_cast<std::size_t>(id)];
    require(MPI_Start(&request), "MPI_Start");
    underWay_.push_back(request);
    idOf_.push_back(id);
  }

  void poll(std::vector<MessageId>& done) override {
    if (underWay_.empty()) return;
    int count = 0;
    require(MPI_Testsome(static_cast<int>(underWay_.size()), underWay_.data(), &count, indices_.data(),
                         MPI_STATUSES_IGNORE),
            "MPI_Testsome");
    if (count == MPI_UNDEFINED || count == 0) return;
    const std::span<int> indices(indices_.data(), static_cast<std::size_t>(count));
    for (const int index : indices) done.push_back(idOf_[static_cast<std::size_t>(index)]);
    // From the back on: what takes a gap's place is still under way.
    std::ranges::sort(indices, std::greater());
    for (const int index : indices) {
      underWay_[static_cast<std::size_t>(index)] = underWay_.back();
      idOf_[static_cast<std::size_t>(index)] = idOf_.back();
      underWay_.pop_back();
      idOf_.pop_back();
    }
  }

 private:
  int rank_;
  int size_;
  std::vector<MPI_Request> requests_;  // by id
  std::vector<MessageId> free_;
  std::vector<MPI_Request> underWay_;  // handles of some of these
  std::vector<MessageId> idOf_;        // theirs
  std::vector<int> indices_;           // of those that are done
};

// MPI promises few of them.
void requireTags() {
  constexpr int kChannelTags = 16;
  int* largest = nullptr;
  int isSet = 0;
  require(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest), &isSet),
          "MPI_Comm_get_attr");
  if (isSet != 0 && *largest < Communicator::kTags + kChannelTags) {
    throw PeerError(
        fmt::format("this MPI has tags up to {} only, and {} are needed; another transport of it (such as "
                    "mpirun --mca pml ob1) has more",
                    *largest, Communicator::kTags + kChannelTags));
  }
}

// Workers of one host exchange messages through memory with a name. Once all have it, nobody needs the name any more, and
// without one it goes with its last user, however that ends.
std::set<std::string> forgetSharedMemoryNames() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::vector<int> out(static_cast<std::size_t>(size));
  std::vector<int> in(out.size());
  // Everybody has spoken to everybody afterwards.
  require(MPI_Alltoall(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Alltoall");
  require(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> names;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find("/dev/shm/vader_segment.");
    if (at != std::string::npos) names.insert(line.substr(at, line.find(' ', at) - at));
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
  MPI_Abort(MPI_COMM_WORLD, exitCode);
  std::_Exit(exitCode);
}

std::unique_ptr<Transport> mpiTransport(const MpiSession& session) {
  return std::make_unique<MpiTransport>(session.rank(), session.size());
}

}  // namespace cohort
