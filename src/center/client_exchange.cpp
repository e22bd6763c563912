// What a worker tells of weights of its own.
#include <random>
#include <utility>

#include "center/client_impl.h"

namespace cohort {

std::uint64_t CenterClient::Impl::newToken() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

std::vector<ServerVersion> CenterClient::Impl::weightsHere() const {
  std::vector<ServerVersion> versions;
  for (const auto& server : servers_) versions.push_back(server->weights);
  return versions;
}

void CenterClient::Impl::beginOwn() {
  own_ = {.number = newToken(), .begunWith = weightsHere()};
}

// What servers write down of an exchange: with that, this worker's weights can be computed again.
void CenterClient::Impl::exchangeOwn() {
  exchange_.Clear();
  exchange_.set_weights(own_.number);
  exchange_.set_number(++own_.exchanges);
  for (const Step step : std::exchange(own_.steps, {})) exchange_.add_steps(step);
  for (const ServerVersion& version : std::exchange(own_.begunWith, {}))
    *exchange_.add_begun_with() = toWire(version);
}

// In one breath: the mail is asked for behind the letter. Both are said again to a server that was away.
std::optional<std::vector<CenterClient::Mail>> CenterClient::Impl::visit(
    std::span<const float> letter, const std::shared_ptr<const void>& keep, std::span<float> mail) {
  std::uint64_t breaks = 0;
  {
    const std::lock_guard lock(mutex_);
    if (isAbandoned_) return std::nullopt;
    breaks = breaks_;
    // The first one is made with weights that were the center's; a chief may have looked at others since.
    if (own_.found.empty()) own_.found = own_.begunWith;
  }
  push(0, {0, letter.size()}, letter, keep);
  for (const auto& server : servers_) ask(*server, {{std::string(kMail), mail}}, 0, {});
  wait([&] { return hasPulled(); });
  const std::lock_guard lock(mutex_);
  if (breaks_ != breaks) return std::nullopt;
  std::vector<Mail> found;
  own_.found.clear();
  for (const auto& server : servers_) {
    found.push_back({.range = sliceOf(*server), .part = server->pull->part});
    own_.found.push_back(server->weights);
    server->pull.reset();
  }
  return found;
}

}  // namespace cohort
