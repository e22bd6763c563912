// A worker's end of links over gRPC. Private to center.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "center/credentials.h"
#include "center/link.h"

namespace cohort {

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
