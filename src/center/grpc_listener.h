// A server's end of links over gRPC: one stream of raw bytes for each (grpc_frame.h). Private to center.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "center/credentials.h"
#include "center/grpc_stream.h"
#include "center/inbox.h"

namespace cohort {

// What strangers and members may take of a server's memory.
struct GrpcLimits {
  std::size_t streams = 10'000;
  // An honest answer is the weights and all slots of a run in messages of 4 MB: no more than some thousands.
  UnsentLimits unsent{.messages = 65'536, .headBytes = std::size_t{64} << 20};
};

// Takes connections, each a link of `inbox`, from its making to its end.
class GrpcListener {
 public:
  // IoError where the address cannot be had.
  GrpcListener(const std::string& address, const std::optional<Credentials>& credentials, Inbox& inbox,
               const GrpcLimits& limits = {});
  // Cuts connections that are still there; returns when gRPC has done with all of them.
  ~GrpcListener();
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;

  // With the port that was chosen.
  const std::string& address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
