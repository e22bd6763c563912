// All that a program with networks or datasets of its own needs: write a network with ModelBuilder, or any other model as a
// Trainable, and add it to builtinNetworks(), or a format as an ImageSet and add it to builtinDatasets(), and hand them to run().
// docs/custom-models.md and docs/custom-datasets.md show how.
#pragma once

#include "base/error.h"
#include "base/trainable.h"
#include "cli/run.h"
#include "data/image_dataset.h"
#include "graph/model_builder.h"
#include "models/network.h"
