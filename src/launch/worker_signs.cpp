#include "launch/worker_signs.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>

#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "launch/peer_watch.h"
#include "launch/sign_sampler.h"
#include "launch/worker_message.h"
#include "launch/worker_status.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kBetweenSigns{250};
constexpr std::chrono::milliseconds kBetweenFiles{1000};
constexpr std::chrono::seconds kLastWordLimit{2};

double threadSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double wallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

WorkerMessage messageOf(int worker, const WorkerSign& sign) {
  WorkerMessage message{.kind = WorkerMessage::Kind::Alive, .worker = worker};
  message.process = ::getpid();
  message.step = sign.step;
  message.isTraining = sign.isTraining;
  message.mayRest = sign.mayRest;
  message.beats = sign.beats;
  message.doing = sign.doing;
  message.waitsFor = sign.waitsFor;
  message.waitsForAnother = sign.waitsForAnother;
  return message;
}

}  // namespace

class WorkerSigns::Impl {
 public:
  Impl(SupervisorLink& link, const Watched& watched) : link_(link), watched_(watched) {
    link.setWorker(watched.worker);
    signs_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
  }

  void publish(const fs::path& jobDirectory, const std::string& name, double stallSeconds) {
    const std::lock_guard lock(mutex_);
    directory_ = jobDirectory;
    name_ = name;
    stallSeconds_ = stallSeconds;
    files_ = std::jthread([this](const std::stop_token& stop) { write(stop); });
  }

  // Whether the thread that writes could not write the last words: a disk holds it up.
  bool isHeldUp() {
    const std::lock_guard lock(mutex_);
    return !directory_.empty() && !failure_.empty() && !isLastWritten_;
  }
  // Nothing is looked at any more.
  void abandon() {
    files_.request_stop();
    signs_ = {};
  }

  void withdraw() {
    files_.request_stop();
    wake_.notify_all();
    if (files_.joinable()) files_.join();
    const std::lock_guard lock(mutex_);
    if (!directory_.empty() && failure_.empty()) removeStatus(directory_, status());
    directory_.clear();
  }

  // A disk that does not answer must not keep it from ending.
  void failed(const std::string& sentence) {
    std::unique_lock lock(mutex_);
    failure_ = sentence;
    if (directory_.empty()) return;
    wake_.notify_all();
    wake_.wait_for(lock, kLastWordLimit, [this] { return isLastWritten_; });
  }

 private:
  // ---- the thread that looks, and tells the supervisor

  void tell(const std::stop_token& stop) {
    SignSampler sampler(watched_.workers, watched_.activity, watched_.first);
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      lock.unlock();
      WorkerSign sign = sampler.look(fileSeconds_);
      link_.sign(messageOf(watched_.worker, sign));
      lock.lock();
      sign_ = std::move(sign);
      wake_.wait_for(lock, stop, kBetweenSigns, [&] { return stop.stop_requested(); });
    }
  }

  // ---- the thread that writes, which a disk may hold up

  void write(const std::stop_token& stop) {
    const int size = watched_.workers == nullptr ? 1 : watched_.workers->size();
    const bool judges = !link_ && size > 1;
    PeerWatch peers(directory_, stallSeconds_);
    removeDeadStatuses(directory_);
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested() && !isLastWritten_) {
      const WorkerStatus own = status();
      lock.unlock();
      writeStatus(directory_, own);
      if (judges && own.failure.empty()) {
        const std::string verdict = peers.look(own, size);
        if (!verdict.empty() && !stop.stop_requested()) watched_.workers->giveUp(verdict);
      }
      fileSeconds_ = threadSeconds();
      lock.lock();
      isLastWritten_ = !own.failure.empty();
      wake_.notify_all();
      wake_.wait_for(lock, stop, kBetweenFiles,
                     [&] { return stop.stop_requested() || (!failure_.empty() && !isLastWritten_); });
    }
  }

  // Under the lock.
  WorkerStatus status() const {
    return {.name = name_,
            .host = hostName(),
            .process = ::getpid(),
            .step = sign_.step,
            .doing = sign_.doing,
            .doingSeconds = sign_.doingSeconds,
            .waitsFor = sign_.waitsFor,
            .waitsForAnother = sign_.waitsForAnother,
            .mayRest = sign_.mayRest,
            .stillSeconds = sign_.stillSeconds,
            .written = wallSeconds(),
            .failure = failure_};
  }

  SupervisorLink& link_;
  Watched watched_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  WorkerSign sign_{.doing = "preparing"};  // the last one
  std::string failure_;
  bool isLastWritten_ = false;  // with that
  // As `publish` says.
  fs::path directory_;
  std::string name_;
  double stallSeconds_ = 0;
  std::atomic<double> fileSeconds_ = 0;  // processor time of the thread that writes
  std::jthread signs_;
  std::jthread files_;
};

WorkerSigns::WorkerSigns(SupervisorLink& link, const Watched& watched)
    : impl_(std::make_unique<Impl>(link, watched)) {}

WorkerSigns::~WorkerSigns() {
  if (impl_->isHeldUp()) {
    impl_->abandon();
    static_cast<void>(impl_.release());  // this process ends without it
  } else {
    impl_->withdraw();
  }
}

void WorkerSigns::publish(const fs::path& jobDirectory, const std::string& name, double stallSeconds) {
  impl_->publish(jobDirectory, name, stallSeconds);
}

void WorkerSigns::withdraw() {
  impl_->withdraw();
}

void WorkerSigns::failed(const std::string& sentence) {
  impl_->failed(sentence);
}

}  // namespace cohort
