// What a supervisor hears of its workers and of its user: their messages, shown or kept; signals; who stands still. One thread.
// Private to launch.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "launch/signal_queue.h"
#include "launch/stall.h"
#include "launch/worker_message.h"
#include "report/console.h"

namespace cohort {

// Of a center's workers: one that waits for a server in the middle of its work does not move for as long as that may be away; a
// frozen one gives no sign of life either.
StallLimits stallLimits(double stallSeconds, double recoverySeconds);

class WorkerWatch {
 public:
  // Makes the FIFO, which goes with this. From now on SIGINT, SIGTERM and SIGUSR1 are read here: the first asks to stop, the
  // second ends everything at once.
  WorkerWatch(std::filesystem::path fifo, const StallLimits& limits, Screen& screen);
  ~WorkerWatch();
  WorkerWatch(const WorkerWatch&) = delete;
  WorkerWatch& operator=(const WorkerWatch&) = delete;

  const std::filesystem::path& fifo() const { return fifoPath_; }

  // All workers start anew, so many from this number on. `together` of them at a time, in their order, wait for each other; 0: all.
  void begin(int workers, int first = 0, int together = 0);
  // One does.
  void restart(int worker);

  // Waits briefly for something to hear, and hears it.
  void listen(std::chrono::milliseconds most);
  void readSignals();
  bool isStopping() const { return stop_; }
  // From now on, a second signal ends everything only where it is a SIGINT: launchers send others several times.
  void endOnlyByInterrupts() { endsOnlyByInterrupts_ = true; }
  // Called where a second signal ends this process, which destroys nothing then.
  void atSecondSignal(std::function<void()> action) { atSecondSignal_ = std::move(action); }

  struct Heard {
    std::optional<int> finished{};  // the exit code that the first worker named
    std::vector<WorkerMessage> failures{};
    bool hasTrained = false;
    Step step = 0;  // the last one heard of
  };
  const Heard& heard() const { return heard_; }
  std::vector<WorkerMessage> takeFailures() { return std::exchange(heard_.failures, {}); }

  int count() const { return static_cast<int>(watched_.size()); }
  bool isKnown(int worker) const { return at(worker).isKnown; }
  // The exit code that it named as its last word.
  std::optional<int> finished(int worker) const { return at(worker).finished; }
  bool knowsAll() const;
  void signal(int worker, int number) const { at(worker).signal(number); }
  void killAll() const;

  struct Stalled {
    int worker = 0;
    bool hasStarted = true;
    std::string sentence;  // "worker 1 gave no sign of life for 60 s: …"
  };
  // A worker that did not start, or that holds the run up (see findStall); nothing where all go on.
  std::optional<Stalled> stalled() const;

 private:
  // What is known of a worker.
  struct Watched {
    WorkerMessage last{};
    Descriptor process{};  // a number alone could be another process's by now
    Clock::time_point started;
    Clock::time_point heard{};  // of it at all
    Clock::time_point moved{};  // its beats went up
    bool isKnown = false;
    std::optional<int> finished{};

    void signal(int number) const;
  };

  const Watched& at(int worker) const { return watched_[static_cast<std::size_t>(worker - first_)]; }
  void forgetOwnPause();
  void openFifo();
  std::optional<Stalled> stalledAmong(int begin, int end) const;
  void hear(const WorkerMessage& message);
  void show(const WorkerMessage& message);

  std::filesystem::path fifoPath_;
  StallLimits limits_;
  Screen& screen_;
  Descriptor fifo_;
  SignalQueue signals_;
  bool stop_ = false;
  bool endsOnlyByInterrupts_ = false;
  std::function<void()> atSecondSignal_ = [] {};
  std::string unread_;                         // the begin of a line
  Clock::time_point listened_ = Clock::now();  // last
  int first_ = 0;                              // the number of the first worker
  int together_ = 1;
  std::vector<Watched> watched_;
  Heard heard_;
};

}  // namespace cohort
