// Who has which share of a server's slice under gossip (GoSGD; Blot, Picard, Cord, Thome 2016): of all weights that workers have, how much each one's
// count. Halves travel with letters; whoever reads a letter adds its share to his own.
//
// Shares are the servers' to keep, since all that changes them passes there: so a worker that dies takes none of them with it. They are whole
// numbers, and what workers have, what is in their mail and what nobody has always add up to kAll, without rounding.
//
// Pure: no clock, no floats of a network, and random numbers by counter. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/philox.h"

namespace cohort {

// A worker with weights of its own, from when it begins with them: the same number on all servers.
using OwnerId = std::uint64_t;

class GossipShares {
 public:
  using Share = std::uint64_t;
  static constexpr Share kAll = Share{1} << 62;

  explicit GossipShares(std::uint64_t seed);

  bool has(OwnerId worker) const { return accounts_.contains(worker); }
  // Who comes is given what those who left have left; where that is nothing, all give it the same part of what they have, so that workers who
  // had equal shares have so again.
  void join(OwnerId worker);
  // Its share, and what is in its mail, is nobody's until another one comes.
  void leave(OwnerId worker);

  struct Sent {
    std::optional<OwnerId> to{};  // nobody: it is alone
    double ofAll = 0;             // what the sender had before
    double ofMail = 0;            // the letter's part of all that its receiver has in his mail now
  };
  // Half of its share goes to another one, who follows from the seed, the sender and the letter's number.
  Sent send(OwnerId from, std::int64_t number);
  // What is in its mail is its own now: the part of all that it has.
  double take(OwnerId worker);

  Share of(OwnerId worker) const { return accounts_.at(worker).own; }
  struct Sums {
    Share workers = 0;
    Share mail = 0;
    Share nobodys = 0;
  };
  Sums sums() const;

 private:
  struct Account {
    Share own = 0;
    Share mail = 0;
  };
  std::optional<OwnerId> receiverOf(OwnerId from, std::int64_t number) const;

  PhiloxKey key_;
  std::map<OwnerId, Account> accounts_;
  Share nobodys_ = kAll;
};

}  // namespace cohort
