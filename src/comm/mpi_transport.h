// Messages by MPI. The process must have been started by mpirun, srun or the like: see `startedByMpi`.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "comm/transport.h"

namespace cohort {

// Whether a launcher has made this process one of several, by its environment alone.
bool startedByMpi();

// MPI from its beginning to its end: one object in a process's life. Made, used and destroyed by the same thread, or by one
// thread at a time.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Ends all workers at once; for when one cannot go on.
  [[noreturn]] static void abort(int exitCode);

 private:
  int rank_ = 0;
  int size_ = 1;
  std::set<std::string> sharedMemoryNames_;
};

// Inside an MpiSession.
std::unique_ptr<Transport> mpiTransport(const MpiSession& session);

}  // namespace cohort
