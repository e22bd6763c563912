// Workers that gossip, or groups of them, in virtual time: the real rule and optimizer of each, and the real post of each server.
//
// A group's life is that of ExchangeSimulation, but it visits all servers after every step: with a letter, which costs the network a whole
// arena, or with a word, which has no bytes but waits for cables as well: nobody overtakes anybody for having written. Each server answers
// with what is in the mail, a whole slice, or with a word; when all have, the group has read it, says that
// its work is finished and goes on. What a group that fails had begun to send still comes, and what it has of shares is then nobody's.
#pragma once

#include <cstdint>

#include "simulation/exchange_simulation.h"

namespace cohort {

class GossipSimulation : public ExchangeSimulation {
 public:
  GossipSimulation(const CenterSetup& setup, const VirtualPlace& place, std::span<const float> weights,
                   MakeOwn makeOwn, Workbench& workbench);

  GossipShares::Sums sharesOf(int server) { return store(server).post().shares().sums(); }

 private:
  // On its way to all servers.
  struct Visit {
    int group = 0;
    int life = 0;
    MemberId member = -1;
    std::int64_t number = 0;
    std::vector<FloatBuffer> letter{};  // by server; empty: none
    int missing = 0;                    // servers that do not have it
  };
  struct Visitor {
    std::int64_t visits = 0;
    std::vector<GossipPost::Found> mail{};  // by server
  };

  Visitor& visitor(int index) { return visitors_[static_cast<std::size_t>(index)]; }

  void meet(int index) override;
  void hasFailed(int index) override;
  void hasLeft(MemberId member) override;
  std::vector<FloatBuffer> letterOf(int index);
  void receive(int server, const std::shared_ptr<Visit>& visit);
  void readMail(int index);

  std::vector<Visitor> visitors_;
  FloatBuffer letter_;
};

}  // namespace cohort
