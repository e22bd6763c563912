// A lane's way to the same lanes of the other workers of its group.
#pragma once

#include "comm/group.h"

namespace cohort {

struct LanePort {
  Group group;
  int tag = 0;  // from here on, lanePortTags(graph) of them are the lane's own
};

}  // namespace cohort
