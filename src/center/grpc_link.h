// Links over gRPC: one stream for each, of raw bytes. A message is a length (32 bits, least significant byte first), the envelope of
// that length, and the floats. Private to center.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "center/credentials.h"
#include "center/inbox.h"
#include "center/link.h"

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

class Poller;

class GrpcServers : public Connector {
 public:
  GrpcServers(std::vector<std::string> addresses, const std::optional<Credentials>& credentials);
  ~GrpcServers() override;

  int servers() const override { return static_cast<int>(addresses_.size()); }
  std::string nameOf(int server) const override;
  std::unique_ptr<Link> connect(int server, LinkListener& listener) override;

 private:
  std::vector<std::string> addresses_;
  std::optional<Credentials> credentials_;
  std::unique_ptr<Poller> poller_;
};

}  // namespace cohort
