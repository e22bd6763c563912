// The workbench of virtual workers: desks, one for each real thread. Private to train.
#pragma once

#include <memory>
#include <vector>

#include "base/float_buffer.h"
#include "simulation/workbench.h"
#include "train/desk.h"
#include "train/lanes.h"

namespace cohort {

class DeskBench : public Workbench {
 public:
  // Everything outlives this.
  DeskBench(const RunContext& context, const RunConfig& config, const BatchSource& batches, int threads,
            std::vector<int> cores);

  const ParameterLayout& layout() const { return desks_.front()->layout(); }
  int places() const override { return lanes_.count(); }
  void compute(std::span<const Task> tasks) override;

  // All desks together; the same bits for any number of them.
  LossSum evaluate(const Dataset& dataset, std::span<const float> weights);

 private:
  void computeOn(std::size_t desk, const Task& task);

  Lanes lanes_;
  std::vector<std::unique_ptr<Desk>> desks_;
  std::vector<FloatBuffer> whole_;  // by desk: weights that came in several slices
};

}  // namespace cohort
