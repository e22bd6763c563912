#include "launch/supervisor_link.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "launch/worker_message.h"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kBetweenSigns{250};
constexpr std::chrono::seconds kLastWordLimit{5};

const char* doingText(const Activity::Snapshot& now) {
  switch (now.phase) {
    case Activity::Phase::Preparing:
      return "preparing";
    case Activity::Phase::Steps:
      return now.isReading ? "reading samples" : "computing";
    case Activity::Phase::Evaluation:
      return "evaluating";
    case Activity::Phase::Checkpoint:
      return "waiting for the disk";
    case Activity::Phase::Ending:
      return "ending";
  }
  return "";
}

double secondsOf(clockid_t clock) {
  timespec time{};
  return ::clock_gettime(clock, &time) == 0
             ? static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9
             : 0;
}

// Goes up while anything is computed: the processor time of all threads but those that only look and tell. Called by the
// thread that tells.
std::uint64_t workBeats(double otherSeconds) {
  constexpr double kBeatSeconds = 0.05;
  const double seconds =
      secondsOf(CLOCK_PROCESS_CPUTIME_ID) - secondsOf(CLOCK_THREAD_CPUTIME_ID) - otherSeconds;
  return seconds > 0 ? static_cast<std::uint64_t>(seconds / kBeatSeconds) : 0;
}

WorkerMessage textMessage(int worker, WorkerMessage::How how, const std::string& text) {
  WorkerMessage message{.kind = WorkerMessage::Kind::Text, .worker = worker};
  message.how = how;
  message.text = text;
  return message;
}

}  // namespace

class SupervisorLink::Impl {
 public:
  explicit Impl(Descriptor fifo) : fifo_(std::move(fifo)) {}
  ~Impl() {
    signs_.request_stop();
    wake_.notify_all();
  }

  // `workers`: nullptr in a center.
  void watch(int worker, Communicator* workers, const Activity& activity) {
    worker_ = worker;
    signs_ = std::jthread([this, workers, &activity](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      while (!stop.stop_requested()) {
        lock.unlock();
        send(signOf(workers, activity));
        lock.lock();
        wake_.wait_for(lock, stop, kBetweenSigns, [&] { return stop.stop_requested(); });
      }
    });
  }

  void unwatch() {
    signs_.request_stop();
    wake_.notify_all();
    if (signs_.joinable()) signs_.join();
  }

  int worker() const { return worker_; }

  // A line that does not fit is left out: a reader that sleeps must not stop training.
  bool send(const WorkerMessage& message) {
    const std::string line = toLine(message);
    ssize_t written = 0;
    do {
      written = ::write(fifo_.get(), line.data(), line.size());
    } while (written < 0 && errno == EINTR);
    return written == static_cast<ssize_t>(line.size());
  }

  // Line by line: a message has no room for many.
  void show(WorkerMessage::How how, const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) sendSurely(textMessage(worker_, how, line));
  }

  void sendSurely(const WorkerMessage& message) {
    const auto limit = std::chrono::steady_clock::now() + kLastWordLimit;
    while (!send(message) && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

 private:
  WorkerMessage signOf(Communicator* workers, const Activity& activity) const {
    const Activity::Snapshot now = activity.now();
    WorkerMessage sign;
    sign.worker = worker_;
    sign.process = ::getpid();
    sign.step = now.step;
    sign.isTraining = now.phase == Activity::Phase::Steps;
    // A disk may take its time.
    sign.mayRest = now.phase == Activity::Phase::Checkpoint || now.phase == Activity::Phase::Ending;
    sign.beats = now.beats + workBeats(workers == nullptr ? 0 : workers->busySeconds());
    sign.doing = doingText(now);
    if (workers != nullptr) {
      sign.waitsFor = workers->waitingFor();
    } else if (now.isWaiting) {
      sign.waitsFor = "the center";
    }
    return sign;
  }

  Descriptor fifo_;
  int worker_ = 0;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread signs_;
};

SupervisorLink::SupervisorLink(const std::filesystem::path& fifo) {
  if (fifo.empty()) return;
  Descriptor opened(::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!opened)
    throw IoError(fmt::format("the supervisor is not there ({}: {})", fifo.string(), systemMessage(errno)));
  impl_ = std::make_unique<Impl>(std::move(opened));
}

SupervisorLink::~SupervisorLink() = default;

void SupervisorLink::watch(Communicator& workers, const Activity& activity) {
  if (impl_) impl_->watch(workers.rank(), &workers, activity);
}

void SupervisorLink::watch(int worker, const Activity& activity) {
  if (impl_) impl_->watch(worker, nullptr, activity);
}

void SupervisorLink::unwatch() {
  if (impl_) impl_->unwatch();
}

void SupervisorLink::failed(int worker, const std::string& sentence, int exitCode) {
  if (!impl_) return;
  WorkerMessage message{.kind = WorkerMessage::Kind::Failed, .worker = worker};
  message.text = sentence;
  message.exitCode = exitCode;
  impl_->sendSurely(message);
}

void SupervisorLink::serverFailed(int server, const std::string& sentence, int exitCode) {
  if (!impl_) return;
  WorkerMessage message{.kind = WorkerMessage::Kind::Failed, .worker = server, .isServer = true};
  message.text = sentence;
  message.exitCode = exitCode;
  impl_->sendSurely(message);
}

void SupervisorLink::finished(int worker, int exitCode) {
  if (!impl_) return;
  WorkerMessage message{.kind = WorkerMessage::Kind::Finished, .worker = worker};
  message.exitCode = exitCode;
  impl_->sendSurely(message);
}

void SupervisorLink::print(const std::string& line) {
  if (impl_) impl_->show(WorkerMessage::How::Print, line);
}

void SupervisorLink::detail(const std::string& line) {
  if (impl_) impl_->show(WorkerMessage::How::Detail, line);
}

void SupervisorLink::result(const std::string& line) {
  if (impl_) impl_->show(WorkerMessage::How::Result, line);
}

void SupervisorLink::warn(const std::string& what) {
  if (impl_) impl_->show(WorkerMessage::How::Warning, what);
}

void SupervisorLink::progress(const ProgressReport& report) {
  if (!impl_) return;
  WorkerMessage message{.kind = WorkerMessage::Kind::Progress, .worker = impl_->worker()};
  message.progress = report;
  if (report.logPoint) {
    impl_->sendSurely(message);
  } else {
    impl_->send(message);
  }
}

}  // namespace cohort
