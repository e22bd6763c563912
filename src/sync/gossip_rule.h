// Gossip (GoSGD; Blot, Picard, Cord, Thome 2016): after each of its steps a worker sends its weights, with half of its share, to another one, or
// does not: by chance. Whom they go to, and how shares are kept, is the servers' (center/gossip_shares.h).
//
// As an ExchangeRule: what is due is a letter, and what is sent is the worker's weights, which stay as they are. The chance of a step is a
// random number by counter, of the seed, the worker and its step.
#pragma once

#include <memory>

#include "sync/exchange_rule.h"

namespace cohort {

std::unique_ptr<ExchangeRule> gossipRule(double probability, std::uint64_t seed);

}  // namespace cohort
