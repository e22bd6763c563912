// Messages by MPI that are prepared once and started again and again. Private to comm.
#pragma once

#include <vector>

#include <mpi.h>

#include "comm/transport.h"

namespace cohort {

// PeerError with MPI's words.
void requireMpi(int code, const char* call);
// The largest that MPI has.
int largestTag();

class MpiMessages {
 public:
  MpiMessages() = default;
  ~MpiMessages();
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  // `peer` and `tag` are the communicator's.
  MessageId add(const Message& message, MPI_Comm communicator);
  void remove(MessageId id);
  void start(MessageId id);
  void poll(std::vector<MessageId>& done);

 private:
  std::vector<MPI_Request> requests_;  // by id
  std::vector<MessageId> free_;
  std::vector<MPI_Request> underWay_;  // handles of some of these
  std::vector<MessageId> idOf_;        // theirs
  std::vector<int> indices_;           // of those that are done
};

}  // namespace cohort
