// A run's setup as it travels. Private to center.
#pragma once

#include "center/center.pb.h"
#include "center/setup.h"

namespace cohort {

wire::Setup toWire(const CenterSetup& setup);
// UsageError where it makes no sense: it may come from anybody.
CenterSetup fromWire(const wire::Setup& message);

Work fromWire(const wire::Work& message);

wire::ServerVersion toWire(const ServerVersion& version);

wire::Loss toWire(const LossSum& loss);
LossSum fromWire(const wire::Loss& message);

}  // namespace cohort
