#include "sync/step_agreement.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {

StepAgreement::StepAgreement(Communicator& workers, const GrainTree& tree, const GrainDivision& division,
                             int tag)
    : workers_(workers),
      tree_(tree),
      own_(division.of(workers.rank())),
      grains_(static_cast<std::size_t>(division.grains())),
      hasCome_(static_cast<std::size_t>(workers.size())) {
  COHORT_CHECK(tree.node(0).grains.count() == division.grains() && division.workers() == workers.size(),
               "the division is of these grains, for these workers");
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
    receives_.push_back(&workers.addReceive(peer, tag, bytesOf(division.of(peer)), [this, peer] {
      hasCome_[static_cast<std::size_t>(peer)] = true;
      arrived();
    }));
    sends_.push_back(&workers.addSend(peer, tag + 1, answer, [this] { --sending_; }));
  }
}

void StepAgreement::begin(Wishes own) {
  isAgreed_ = false;
  missing_ = workers_.size();
  for (std::atomic<bool>& has : hasCome_) has = false;
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

std::string StepAgreement::missing() const {
  if (!workers_.isFirst()) return "worker 0: the loss of the step";
  for (std::size_t peer = 1; peer < hasCome_.size(); ++peer) {
    if (!hasCome_[peer]) return fmt::format("worker {}: its losses of the step", peer);
  }
  return "another worker to take the loss of the step";
}

StepResult StepAgreement::finish() {
  COHORT_CHECK(unreported_ == 0, "every grain has a loss");
  workers_.waitUntil([this] { return isAgreed_ && sending_ == 0; }, [this] { return missing(); });
  return result_;
}

std::vector<LossSum> StepAgreement::losses() const {
  COHORT_CHECK(workers_.isFirst(), "the others have told it theirs");
  std::vector<LossSum> losses(grains_.size());
  std::ranges::transform(grains_, losses.begin(), &Grain::loss);
  return losses;
}

}  // namespace cohort
