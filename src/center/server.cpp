#include "center/server.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "center/client.h"
#include "center/grpc_connector.h"
#include "center/grpc_listener.h"
#include "center/local_connector.h"
#include "center/server_loop.h"

namespace cohort {

class CenterServer::Impl {
 public:
  explicit Impl(const Options& options)
      : loop_({.index = options.index, .count = options.count, .life = std::random_device()()},
              options.snapshot.empty()
                  ? nullptr
                  : std::make_unique<SnapshotWriter>(options.snapshot, options.snapshotSeconds, options.warn),
              Clock::now,
              options.journals.empty() ? nullptr
                                       : std::make_unique<JournalWriter>(options.journals, options.warn)) {
    if (!options.listen.empty()) listener_.emplace(options.listen, options.credentials, loop_.inbox());
  }

  ServerLoop& loop() { return loop_; }
  std::string address() const { return listener_ ? listener_->address() : ""; }

 private:
  ServerLoop loop_;
  std::optional<GrpcListener> listener_;  // ends before the loop does
};

CenterServer::CenterServer(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
CenterServer::~CenterServer() = default;

std::string CenterServer::address() const {
  return impl_->address();
}

bool CenterServer::halt() {
  if (!impl_->loop().hasMembers()) return false;
  impl_->loop().inbox().put({.kind = Incoming::Kind::Halt});
  return true;
}

bool CenterServer::hasWorkers() const {
  return impl_->loop().hasLinks();
}

void CenterServer::wait(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool CenterServer::isOver(double seconds) {
  return impl_->loop().isOver(seconds);
}

std::shared_ptr<Connector> connectorTo(const std::vector<std::string>& addresses,
                                       const std::optional<Credentials>& credentials) {
  return std::make_shared<GrpcServers>(addresses, credentials);
}

std::shared_ptr<Connector> connectorTo(const std::vector<CenterServer*>& servers) {
  std::vector<ServerLoop*> loops(servers.size());
  std::ranges::transform(servers, loops.begin(),
                         [](const CenterServer* server) { return &server->impl_->loop(); });
  return std::make_shared<LocalServers>(std::move(loops));
}

}  // namespace cohort
