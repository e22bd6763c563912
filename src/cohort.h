// All that a program with networks of its own needs: write a network with ModelBuilder, add it to builtinNetworks(), and
// hand them to run(). docs/custom-models.md shows how.
#pragma once

#include "cli/run.h"
#include "graph/model_builder.h"
#include "models/network.h"
