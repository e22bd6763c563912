// One layer alone, trained by the machinery of whole networks: what its steps take.
//
// The network is the layer and a softmax loss over its outputs; those of a convolution pass through a global average pool first.
// Nothing lies before the layer, so that its backward pass computes the gradient of its weights alone, and, where workers divide
// the outputs, nothing is gathered before it nor summed behind it: every worker reads all images. They are computed once, and are the
// same for every mode.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "graph/graph.h"
#include "train/layer_table.h"
#include "train/trainer.h"

namespace cohort {

struct LayerBench {
  enum class Layer { Dense, Conv };
  enum class Mode {
    None,  // one worker
    Data,  // workers divide the batch
    Model  // workers divide the outputs
  };
  Layer layer = Layer::Dense;
  Mode mode = Mode::None;
  Shape input{.channels = 3, .height = 256, .width = 256};
  int outputs = 1024;
  int kernel = 11;  // of a convolution
  int stride = 2;
  int workers = 1;
  int lanes = 1;  // of each worker; a grain for each
  std::int64_t batch = 10;
  int steps = 50;  // that count; one more goes before them
};

// UsageError where the batch, the layer and the workers do not fit.
void requireLayer(const LayerBench& bench);

// Of a step, each the median of the steps, in seconds of lanes' time divided by the lanes.
struct LayerTimes {
  double forward = 0;   // without communication, as the next two
  double backward = 0;  // the weights' gradient
  double update = 0;    // adding gradients and changing weights, as far as lanes do it
  // What lanes do for the exchange with other workers: packing, waiting, unpacking and adding in collectives, and waiting at the end
  // of the step.
  double communication = 0;
  double step = 0;       // all of it
  double sentBytes = 0;  // to other workers
  double loss = 0;       // of the last step

  bool operator==(const LayerTimes&) const = default;
};

// Where lanes' time went, from what all of them spent together and what each layer took (divided by the lanes already).
LayerTimes timesOf(const PhaseSeconds& spent, int lanes, const LayerTable& layers);

// By each of `bench.workers`; on the first one the mean over all workers, on others their own. `cores` are for the lanes, one each;
// empty: the system places them.
LayerTimes runLayer(const LayerBench& bench, Communicator& workers, const std::vector<int>& cores = {});

std::string toJson(const LayerTimes& times);
// IoError that names `source` where the text is not what toJson gives.
LayerTimes layerTimes(const std::string& text, const std::string& source);

}  // namespace cohort
