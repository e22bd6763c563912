#include "sync/step_agreement.h"

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

GrainRange grainsOfWorker(int grains, int rank, int size) {
  return shareOf({0, grains}, {rank, size});
}

StepAgreement::StepAgreement(Communicator& workers, const GrainTree& tree, int tag)
    : workers_(workers), tree_(tree), grains_(static_cast<std::size_t>(tree.node(0).grains.count())) {
  const int grains = tree.node(0).grains.count();
  own_ = grainsOfWorker(grains, workers.rank(), workers.size());
  const auto bytesOf = [this](GrainRange range) {
    return std::as_writable_bytes(std::span(grains_).subspan(static_cast<std::size_t>(range.first),
                                                             static_cast<std::size_t>(range.count())));
  };
  const auto answer = std::as_writable_bytes(std::span(&result_, 1));
  if (!workers.isFirst()) {
    sends_.push_back(&workers.addSend(0, tag, bytesOf(own_), [this] { --sending_; }));
    receives_.push_back(&workers.addReceive(0, tag + 1, answer, [this] { isAgreed_ = true; }));
    return;
  }
  for (int peer = 1; peer < workers.size(); ++peer) {
    receives_.push_back(&workers.addReceive(peer, tag, bytesOf(grainsOfWorker(grains, peer, workers.size())),
                                            [this] { arrived(); }));
    sends_.push_back(&workers.addSend(peer, tag + 1, answer, [this] { --sending_; }));
  }
}

void StepAgreement::begin(Wishes own) {
  isAgreed_ = false;
  missing_ = workers_.size();
  unreported_ = own_.count();
  sending_ = static_cast<int>(sends_.size());
  grains_[static_cast<std::size_t>(own_.first)].wishes = own;
  for (Communicator::Transfer* transfer : receives_) workers_.start(*transfer);
}

void StepAgreement::report(GrainIndex grain, const LossSum& loss) {
  grains_[static_cast<std::size_t>(grain)].loss = loss;
  if (unreported_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  if (workers_.isFirst()) {
    arrived();
  } else {
    workers_.start(*sends_.front());
  }
}

// On the first worker: another one's losses, or its own, are there.
void StepAgreement::arrived() {
  if (missing_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  result_.loss = sumOf(0);
  result_.wishes = 0;
  for (Grain& grain : grains_) result_.wishes |= grain.wishes;
  for (Communicator::Transfer* transfer : sends_) workers_.start(*transfer);
  isAgreed_ = true;
}

LossSum StepAgreement::sumOf(int node) const {
  const GrainTree::Node& n = tree_.node(node);
  if (n.left < 0) return grains_[static_cast<std::size_t>(n.grains.first)].loss;
  LossSum sum = sumOf(n.left);
  return sum += sumOf(n.right);
}

StepResult StepAgreement::finish() {
  COHORT_CHECK(unreported_ == 0, "every grain has a loss");
  workers_.waitUntil([this] { return isAgreed_ && sending_ == 0; },
                     [this] {
                       return workers_.isFirst()
                                  ? fmt::format("the losses of {} other workers", missing_.load())
                                  : std::string("worker 0: the loss of the step");
                     });
  return result_;
}

}  // namespace cohort
