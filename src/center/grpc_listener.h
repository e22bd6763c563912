// A server's end of links over gRPC: one stream of raw bytes for each (grpc_frame.h). Private to center.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "center/credentials.h"
#include "center/inbox.h"

namespace cohort {

// Takes connections, each a link of `inbox`, from its making to its end.
class GrpcListener {
 public:
  // IoError where the address cannot be had.
  GrpcListener(const std::string& address, const std::optional<Credentials>& credentials, Inbox& inbox);
  // Cuts connections that are still there.
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
