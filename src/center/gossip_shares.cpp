#include "center/gossip_shares.h"

#include <utility>

#include "base/hash.h"

namespace cohort {
namespace {

double ratio(GossipShares::Share part, GossipShares::Share all) {
  return part == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

GossipShares::GossipShares(std::uint64_t seed) : key_(philoxKey(seed, hashName("gossip receiver"))) {}

void GossipShares::join(OwnerId worker) {
  Share given = std::exchange(nobodys_, 0);
  if (given == 0) {
    for (auto& [other, account] : accounts_) {
      const Share part = account.own / (accounts_.size() + 1);
      account.own -= part;
      given += part;
    }
  }
  accounts_[worker].own = given;
}

void GossipShares::leave(OwnerId worker) {
  const auto found = accounts_.find(worker);
  nobodys_ += found->second.own + found->second.mail;
  accounts_.erase(found);
}

std::optional<OwnerId> GossipShares::receiverOf(OwnerId from, std::int64_t number) const {
  const std::uint64_t others = accounts_.size() - 1;
  if (others == 0) return std::nullopt;
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); };
  const auto count = static_cast<std::uint64_t>(number);
  std::uint64_t index = (others * philox(key_, {low(from), high(from), low(count), high(count)})[0]) >> 32U;
  for (const auto& [worker, account] : accounts_) {
    if (worker != from && index-- == 0) return worker;
  }
  return std::nullopt;
}

GossipShares::Sent GossipShares::send(OwnerId from, std::int64_t number) {
  Account& sender = accounts_.at(from);
  Sent sent{.to = receiverOf(from, number), .ofAll = ratio(sender.own, kAll)};
  if (!sent.to) return sent;
  const Share half = sender.own / 2;
  Account& receiver = accounts_.at(*sent.to);
  sender.own -= half;
  receiver.mail += half;
  sent.ofMail = ratio(half, receiver.mail);
  return sent;
}

double GossipShares::take(OwnerId worker) {
  Account& account = accounts_.at(worker);
  const Share came = std::exchange(account.mail, 0);
  account.own += came;
  return ratio(came, account.own);
}

GossipShares::Sums GossipShares::sums() const {
  Sums sums{.nobodys = nobodys_};
  for (const auto& [worker, account] : accounts_) {
    sums.workers += account.own;
    sums.mail += account.mail;
  }
  return sums;
}

}  // namespace cohort
