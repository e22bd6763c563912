// The brief look at the ground before the first step of a run whose workers a launcher has started. Private to cli.
#pragma once

#include <string>

#include "comm/channel.h"
#include "report/console.h"
#include "train/run.h"

namespace cohort {

// Who looks: "worker 2", and so many workers that it is, or starts.
struct GroundMember {
  std::string name = {};
  int workers = 1;
};

// All members call this. What makes a run another one is a UsageError on all of them; what makes it slow, the first one warns of.
void checkGround(const Channel& channel, const GroundMember& member, const RunContext& context,
                 const RunConfig& config, Screen& screen);

// The same of this host alone, where the others come and go.
void checkOwnGround(const GroundMember& member, const RunContext& context, const RunConfig& config,
                    Screen& screen);

}  // namespace cohort
