#include "comm/mpi_messages.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <span>
#include <string>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

void requireMpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw PeerError(fmt::format("{} failed: {}", call, std::string(text, static_cast<std::size_t>(length))));
}

int largestTag() {
  int* largest = nullptr;
  int isSet = 0;
  requireMpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest), &isSet),
             "MPI_Comm_get_attr");
  return isSet != 0 ? *largest : INT_MAX;
}

MpiMessages::~MpiMessages() {
  for (MPI_Request& request : requests_) {
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

MessageId MpiMessages::add(const Message& message, MPI_Comm communicator) {
  // MPI counts in ints; large messages are floats, both ends see the same size, and 8 GiB are room enough.
  const std::size_t bytes = message.memory.size();
  const bool areFloats = bytes > INT_MAX && bytes % sizeof(float) == 0;
  const std::size_t items = areFloats ? bytes / sizeof(float) : bytes;
  COHORT_CHECK(items <= INT_MAX, "a message has less than 8 GiB");
  const int count = static_cast<int>(items);
  MPI_Datatype type = areFloats ? MPI_FLOAT : MPI_BYTE;
  MPI_Request request = MPI_REQUEST_NULL;
  requireMpi(message.direction == Message::Direction::Send
                 ? MPI_Send_init(message.memory.data(), count, type, message.peer, message.tag, communicator,
                                 &request)
                 : MPI_Recv_init(message.memory.data(), count, type, message.peer, message.tag, communicator,
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

void MpiMessages::remove(MessageId id) {
  requireMpi(MPI_Request_free(&requests_[static_cast<std::size_t>(id)]), "MPI_Request_free");
  free_.push_back(id);
}

void MpiMessages::start(MessageId id) {
  MPI_Request& request = requests_[static_cast<std::size_t>(id)];
  requireMpi(MPI_Start(&request), "MPI_Start");
  underWay_.push_back(request);
  idOf_.push_back(id);
}

void MpiMessages::poll(std::vector<MessageId>& done) {
  if (underWay_.empty()) return;
  int count = 0;
  requireMpi(MPI_Testsome(static_cast<int>(underWay_.size()), underWay_.data(), &count, indices_.data(),
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

}  // namespace cohort
