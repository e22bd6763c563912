// For tests only: runs of several workers on the threads of one process, whole or step by step with their gradients.
#pragma once

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/float_buffer.h"
#include "comm/channel.h"
#include "comm/thread_transport.h"
#include "engine/instruction_set.h"
#include "tests/training_runs.h"
#include "train/divided_run.h"
#include "train/engine_model.h"
#include "train/run_setup.h"
#include "train/trainer.h"
#include "train/worker_share.h"

namespace cohort {

// How the workers of a run are placed and disturbed, which must not show.
struct Circumstances {
  std::vector<int> lanes{1};   // by worker; the last one's for those behind
  std::uint32_t disorder = 0;  // of messages

  int lanesOf(int rank) const { return lanes[std::min(static_cast<std::size_t>(rank), lanes.size() - 1)]; }
};

// Calls work(communicator) on a thread for each worker. A failure ends what the others wait for, and is thrown again when all
// have ended.
inline void onThreads(int workers, std::uint32_t disorder, const std::function<void(Communicator&)>& work) {
  ThreadHub hub(workers, disorder);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < workers; ++rank) {
    communicators.push_back(workers == 1 ? std::make_unique<Communicator>()
                                         : std::make_unique<Communicator>(hub.transport(rank)));
  }
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&](Communicator& own) {
    try {
      work(own);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      for (const auto& communicator : communicators) communicator->halt();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (const auto& communicator : communicators) threads.emplace_back([&] { run(*communicator); });
  }
  if (failure) std::rethrow_exception(failure);
}

using FillWeights = std::function<void(const ParameterLayout& layout, std::span<float> arena)>;

// One worker with everything that a step needs, as a run makes it, and nothing else.
class SteppingWorker {
 public:
  // `firstWeights`: instead of the seed's.
  SteppingWorker(const RunContext& context, RunConfig config, Communicator& workers,
                 const FillWeights& firstWeights = {})
      : config_(std::move(config)),
        channel_(workers, 0),
        data_(openData(context, config_)),
        divided_(divideRun(context, config_, channel_, static_cast<int>(config_.threads))),
        lanes_(laneCount(divided_.get(), division(workers).of(workers.rank()),
                         static_cast<int>(config_.threads))),
        model_(makeModel(context, config_, lanes_, groupPartOf(divided_.get(), workers))),
        share_(workers, model_->layout(), divided_.get(), division(workers)),
        state_(model_->layout(), shardOptions(config_, data_.train->size()), share_.own(), config_.seed, 1),
        batches_(*data_.train,
                 {.batchSize = config_.batchSize, .grains = grains(), .seed = config_.seed, .shuffle = true}),
        rule_(share_.makeRule(state_, lanes_.count())),
        completion_(share_.makeCompletion(state_)),
        laneBatches_(batches_, divided_.get(), *rule_, lanes_.count(), 0, 0) {
    if (firstWeights) firstWeights(state_.layout, state_.weights.span());
    model_->prepareTraining(state_.weights.span());
    trainer_ = std::make_unique<Trainer>(lanes_, model_->trainables(), *rule_, activity_);
  }

  bool isDivided() const { return divided_ != nullptr; }
  const TrainingState& state() const { return state_; }

  // Returns the mean loss. The slices that this worker applies are left in `gradients`.
  double step(std::span<float> gradients) {
    rule_->keepGradients(gradients);
    const auto next = [this](int lane, Step step, GrainIndex unit) {
      return laneBatches_.next(lane, step, unit);
    };
    return trainer_->step(state_.step++, next).loss.meanLoss();
  }

  // By all workers: what only some of them have moves to all.
  std::span<const float> completeWeights() {
    if (completion_) completion_->run("the weights");
    return state_.weights.span();
  }

 private:
  int grains() const { return static_cast<int>(config_.grains); }
  GrainDivision division(const Communicator& workers) const {
    return GrainDivision::equal(grains(), workers.size());
  }

  RunConfig config_;
  Channel channel_;
  Activity activity_;
  RunData data_;
  std::unique_ptr<DividedRun> divided_;
  Lanes lanes_;
  std::unique_ptr<Model> model_;
  WorkerShare share_;
  TrainingState state_;
  BatchSource batches_;
  std::unique_ptr<SyncRule> rule_;
  std::unique_ptr<SliceGather> completion_;
  LaneBatches laneBatches_;
  std::unique_ptr<Trainer> trainer_;
};

// What a run of several steps came to.
struct SteppedRun {
  bool isDivided = false;
  std::vector<double> losses;               // the mean one of each step
  std::vector<std::string> gradientHashes;  // by step
  FloatBuffer weights;                      // after the last step

  // A step of workers that were told these losses. Those that differ would let workers part where something depends on them.
  void add(const std::vector<double>& told, std::span<const float> gradients) {
    const bool isCommon = std::ranges::count(told, told.front()) == std::ssize(told);
    losses.push_back(isCommon ? told.front() : std::numeric_limits<double>::quiet_NaN());
    gradientHashes.push_back(weightsHash(gradients));
  }
};

struct Steps {
  Step count = 0;
  FillWeights firstWeights{};  // instead of the seed's
  // Called after each step with every worker's slices of the gradient in one arena, which is the whole step's.
  std::function<void(Step step, double loss, std::span<const float> gradients)> see{};
};

inline SteppedRun stepOnThreads(const RunContext& context, const RunConfig& config, const Steps& steps,
                                const Circumstances& circumstances) {
  useInstructionSet(bestInstructionSet());
  SteppedRun run;
  FloatBuffer gradients(parameterLayout(*graphOf(context, config)).size());
  const int size = static_cast<int>(config.workers);
  std::vector<double> losses(static_cast<std::size_t>(size));
  const auto forget = [&]() noexcept {
    std::ranges::fill(gradients.span(), std::numeric_limits<float>::quiet_NaN());
  };
  forget();
  std::barrier meeting(size);
  onThreads(size, circumstances.disorder, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    RunConfig own = config;
    own.threads = circumstances.lanesOf(rank);
    std::optional<SteppingWorker> worker;
    try {
      worker.emplace(context, own, communicator, steps.firstWeights);
      for (Step step = 0; step < steps.count; ++step) {
        losses[static_cast<std::size_t>(rank)] = worker->step(gradients.span());
        meeting.arrive_and_wait();
        if (rank == 0) {
          run.add(losses, gradients.span());
          if (steps.see) steps.see(step, run.losses.back(), gradients.span());
          forget();
        }
        meeting.arrive_and_wait();
      }
      const std::span<const float> weights = worker->completeWeights();
      if (rank == 0) {
        run.isDivided = worker->isDivided();
        run.weights = FloatBuffer(weights.size());
        std::ranges::copy(weights, run.weights.data());
      }
      meeting.arrive_and_wait();
    } catch (...) {
      meeting.arrive_and_drop();
      communicator.halt();  // others may still send to what goes now
      throw;
    }
  });
  return run;
}

// What the first of several workers tells of a whole run, in a job directory that all share.
inline RunSummary trainOnThreads(const RunContext& context, const std::filesystem::path& jobPath,
                                 const GivenSettings& given, const Circumstances& circumstances) {
  const RunConfig config = resolveConfig(context.networks, storedConfig(jobPath), given);
  const int size = static_cast<int>(config.workers);
  const JobDirectory job(jobPath);
  RunSummary summary;
  onThreads(size, circumstances.disorder, [&](Communicator& communicator) {
    RunConfig own = config;
    own.threads = circumstances.lanesOf(communicator.rank());
    Recorder recorder;
    Activity activity;
    const RunSummary told =
        runTraining(context, own, job, recorder.stop, std::chrono::steady_clock::now(), recorder,
                    {.workers = communicator, .activity = activity, .cores = {}});
    if (communicator.isFirst()) summary = told;
  });
  return summary;
}

}  // namespace cohort
