#include "comm/mpi_transport.h"

#include <climits>
#include <cstdlib>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include "base/error.h"

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
    COHORT_CHECK(message.memory.size() <= INT_MAX, "a message has less than 2 GiB");
    const int count = static_cast<int>(message.memory.size());
    MPI_Request request = MPI_REQUEST_NULL;
    require(message.direction == Message::Direction::Send
                ? MPI_Send_init(message.memory.data(), count, MPI_BYTE, message.peer, message.tag,
                                MPI_COMM_WORLD, &request)
                : MPI_Recv_init(message.memory.data(), count, MPI_BYTE, message.peer, message.tag,
                                MPI_COMM_WORLD, &request),
            "preparing a message");
    MessageId id = static_cast<MessageId>(requests_.size());
    if (free_.empty()) {
      requests_.push_back(request);
      done_.resize(requests_.size());
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
    require(MPI_Start(&requests_[static_cast<std::size_t>(id)]), "MPI_Start");
  }

  // Requests that are not under way count for nothing here, and those of the past are not freed: they are persistent.
  void poll(std::vector<MessageId>& done) override {
    if (requests_.empty()) return;
    int count = 0;
    require(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(),
                         MPI_STATUSES_IGNORE),
            "MPI_Testsome");
    if (count == MPI_UNDEFINED) return;
    done.insert(done.end(), done_.begin(), done_.begin() + count);
  }

 private:
  int rank_;
  int size_;
  std::vector<MPI_Request> requests_;
  std::vector<MessageId> free_;
  std::vector<int> done_;
};

// Workers of one host exchange messages through memory with a name. Once all have it, nobody needs the name any more, and
// without one it goes with its last user, however that ends.
void forgetSharedMemoryNames() {
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
  MPI_Comm host = MPI_COMM_NULL;
  require(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
          "MPI_Comm_split_type");
  MPI_Comm_rank(host, &localRank_);
  MPI_Comm_size(host, &localSize_);
  MPI_Comm_free(&host);
  forgetSharedMemoryNames();
}

MpiSession::~MpiSession() {
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
