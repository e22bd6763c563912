#include "launch/supervisor_link.h"

#include <atomic>
#include <cerrno>
#include <chrono>
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

constexpr std::chrono::seconds kLastWordLimit{5};

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

  void setWorker(int worker) { worker_ = worker; }
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
  Descriptor fifo_;
  std::atomic<int> worker_ = 0;
};

SupervisorLink::SupervisorLink(const std::filesystem::path& fifo) {
  if (fifo.empty()) return;
  Descriptor opened(::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!opened)
    throw IoError(fmt::format("the supervisor is not there ({}: {})", fifo.string(), systemMessage(errno)));
  impl_ = std::make_unique<Impl>(std::move(opened));
}

SupervisorLink::~SupervisorLink() = default;

void SupervisorLink::setWorker(int worker) {
  if (impl_) impl_->setWorker(worker);
}

void SupervisorLink::sign(const WorkerMessage& message) {
  if (impl_) impl_->send(message);
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
