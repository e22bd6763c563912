#include "train/desk_bench.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace cohort {

DeskBench::DeskBench(const RunContext& context, const RunConfig& config, const BatchSource& batches,
                     int threads, std::vector<int> cores)
    : lanes_(threads, std::move(cores)), whole_(static_cast<std::size_t>(threads)) {
  for (int desk = 0; desk < threads; ++desk)
    desks_.push_back(std::make_unique<Desk>(context, config, batches));
}

void DeskBench::compute(std::span<const Task> tasks) {
  // Others are not woken for one.
  if (tasks.size() == 1) return computeOn(0, tasks.front());
  std::atomic<std::size_t> next = 0;
  lanes_.run([&](int lane) {
    for (std::size_t i = next++; i < tasks.size(); i = next++)
      computeOn(static_cast<std::size_t>(lane), tasks[i]);
  });
}

void DeskBench::computeOn(std::size_t desk, const Task& task) {
  std::span<const float> weights = task.weights.front();
  if (task.weights.size() > 1) {
    FloatBuffer& whole = whole_[desk];
    if (whole.size() == 0) whole = FloatBuffer(layout().size());
    float* at = whole.data();
    for (const std::span<const float> slice : task.weights) at = std::ranges::copy(slice, at).out;
    weights = whole.span();
  }
  Desk& own = *desks_[desk];
  const Desk::Result& result =
      task.isAlone ? own.computeAlone(task.work, weights) : own.compute(task.work, weights);
  std::vector<Result::Node> gradients;
  for (const Desk::NodeSums& node : result.gradients) gradients.push_back({node.node, node.sums});
  task.done({.gradients = gradients, .losses = result.losses});
}

LossSum DeskBench::evaluate(const Dataset& dataset, std::span<const float> weights) {
  std::vector<std::vector<LossSum>> shares(desks_.size());
  lanes_.run([&](int lane) {
    const auto own = static_cast<std::size_t>(lane);
    shares[own] = desks_[own]->evaluateShare(dataset, weights, {lane, lanes_.count()});
  });
  LossSum sum;
  for (const std::vector<LossSum>& share : shares) {
    for (const LossSum& grain : share) sum += grain;
  }
  return sum;
}

}  // namespace cohort
