#include "comm/task_transport.h"

#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/mpi_messages.h"
#include "comm/thread_transport.h"

namespace cohort {
namespace {

// What all transports of a task share.
struct Task {
  int number = 0;
  int tasks = 1;
  int each = 1;                     // workers in a task
  std::mutex mutex{};               // of MPI
  bool isOver = false;              // under the mutex
  std::vector<MPI_Comm> senders{};  // by worker of a task
};

void requireTagsFor(int each) {
  const int most = largestTag() / Communicator::kAllTags;
  if (each <= most) return;
  throw UsageError(fmt::format(
      "--workers-per-task {} is more than this MPI has tags for; {} would do, and more tasks", each, most));
}

class TaskTransport : public Transport {
 public:
  TaskTransport(Task& task, int k, std::unique_ptr<Transport> inside)
      : task_(task), k_(k), inside_(std::move(inside)) {}
  ~TaskTransport() override {
    const std::lock_guard lock(task_.mutex);
    outside_.reset();
  }
  TaskTransport(const TaskTransport&) = delete;
  TaskTransport& operator=(const TaskTransport&) = delete;

  int rank() const override { return task_.number * task_.each + k_; }
  int size() const override { return task_.tasks * task_.each; }

  MessageId add(const Message& message) override {
    const int peerTask = message.peer / task_.each;
    const int peerK = message.peer % task_.each;
    Message inner = message;
    if (peerTask == task_.number) {
      inner.peer = peerK;
      return 2 * inside_->add(inner);
    }
    const bool isSend = message.direction == Message::Direction::Send;
    inner.peer = peerTask;
    inner.tag = (isSend ? peerK : k_) * Communicator::kAllTags + message.tag;
    const std::lock_guard lock(task_.mutex);
    return 2 * outside_->add(inner, task_.senders[static_cast<std::size_t>(isSend ? k_ : peerK)]) + 1;
  }

  void remove(MessageId id) override {
    if (isInside(id)) return inside_->remove(id / 2);
    const std::lock_guard lock(task_.mutex);
    outside_->remove(id / 2);
  }

  void start(MessageId id) override {
    if (isInside(id)) return inside_->start(id / 2);
    const std::lock_guard lock(task_.mutex);
    if (!task_.isOver) outside_->start(id / 2);
  }

  void poll(std::vector<MessageId>& done) override {
    found_.clear();
    inside_->poll(found_);
    for (const MessageId id : found_) done.push_back(2 * id);
    found_.clear();
    const std::lock_guard lock(task_.mutex);
    if (!task_.isOver) outside_->poll(found_);
    for (const MessageId id : found_) done.push_back(2 * id + 1);
  }

  void withdraw() override {
    inside_->withdraw();
    const std::lock_guard lock(task_.mutex);
    task_.isOver = true;
  }

 private:
  static bool isInside(MessageId id) { return id % 2 == 0; }

  Task& task_;
  int k_;
  std::unique_ptr<Transport> inside_;
  std::unique_ptr<MpiMessages> outside_ = std::make_unique<MpiMessages>();
  std::vector<MessageId> found_;
};

}  // namespace

void requireSameTasks(int workersPerTask) {
  int ends[] = {workersPerTask, -workersPerTask};
  requireMpi(MPI_Allreduce(MPI_IN_PLACE, static_cast<int*>(ends), 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD),
             "MPI_Allreduce");
  if (ends[0] == -ends[1]) return;
  throw UsageError(
      fmt::format("tasks were given --workers-per-task {} and {}; give all the same, or start unequal hosts "
                  "with unequal numbers of tasks",
                  -ends[1], ends[0]));
}

class TaskHub::Impl {
 public:
  Impl(const MpiSession& session, int each)
      : inside_(each), task_{.number = session.rank(), .tasks = session.size(), .each = each} {
    requireTagsFor(each);
    task_.senders.resize(static_cast<std::size_t>(each), MPI_COMM_NULL);
    for (MPI_Comm& sender : task_.senders) {
      requireMpi(MPI_Comm_dup(MPI_COMM_WORLD, &sender), "MPI_Comm_dup");
      MPI_Comm_set_errhandler(sender, MPI_ERRORS_RETURN);
    }
  }
  ~Impl() {
    for (MPI_Comm& sender : task_.senders) MPI_Comm_free(&sender);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::unique_ptr<Transport> transport(int k) {
    return std::make_unique<TaskTransport>(task_, k, inside_.transport(k));
  }

 private:
  ThreadHub inside_;
  Task task_;
};

TaskHub::TaskHub(const MpiSession& session, int workersPerTask)
    : impl_(std::make_unique<Impl>(session, workersPerTask)) {}

TaskHub::~TaskHub() = default;

std::unique_ptr<Transport> TaskHub::transport(int k) {
  return impl_->transport(k);
}

}  // namespace cohort
