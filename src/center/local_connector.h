// Ways to servers in this process: messages go from thread to thread. Private to center.
#pragma once

#include <vector>

#include "center/link.h"
#include "center/server_loop.h"

namespace cohort {

class LocalServers : public Connector {
 public:
  // In their order; they outlive this and its links.
  explicit LocalServers(std::vector<ServerLoop*> servers) : servers_(std::move(servers)) {}

  int servers() const override { return static_cast<int>(servers_.size()); }
  std::string nameOf(int server) const override;
  std::unique_ptr<Link> connect(int server, LinkListener& listener) override;

 private:
  std::vector<ServerLoop*> servers_;
};

}  // namespace cohort
