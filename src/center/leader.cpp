#include "center/leader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "center/protocol.h"
#include "center/setup_wire.h"

namespace cohort {
namespace {

void fill(wire::Work& message, const Work& work) {
  message.set_step(work.step);
  message.set_first(work.grains.first);
  message.set_last(work.grains.last);
}

template <class Words>
void fillCommit(Words& words, const std::optional<Commit>& commit) {
  if (!commit) return;
  words.set_commit_step(commit->step);
  for (const GrainRange& grains : commit->grains) {
    wire::Range& range = *words.add_commit();
    range.set_first(grains.first);
    range.set_last(grains.last);
  }
}

bool canBeAdded(const wire::Loss& loss) {
  constexpr std::int64_t kMostSamples = std::int64_t{1} << 31;  // far above any grain's
  const auto isCount = [](std::int64_t count) { return count >= 0 && count <= kMostSamples; };
  return isCount(loss.samples()) && isCount(loss.top1()) && isCount(loss.top5());
}

// As StepAgreement adds them: in the tree's order.
LossSum treeSum(const GrainTree& tree, int node, const std::vector<std::optional<LossSum>>& grains) {
  const GrainTree::Node& n = tree.node(node);
  if (n.left < 0) return grains[static_cast<std::size_t>(n.grains.first)].value_or(LossSum{});
  LossSum sum = treeSum(tree, n.left, grains);
  return sum += treeSum(tree, n.right, grains);
}

}  // namespace

Leader::Leader(const CenterSetup& setup, const Progress& from, std::int64_t dropped, Outlets outlets)
    : grains_(setup.grains),
      acceptance_(acceptanceOf(setup.rule)),
      outlets_(std::move(outlets)),
      tree_(setup.grains),
      policy_(makePolicy(setup, from)),
      dropped_(dropped) {}

const Leader::Member* Leader::find(MemberId member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? nullptr : &found->second;
}

// ---- hearing

void Leader::enter(MemberId member) {
  require(members_.try_emplace(member).second, "a worker enters once, at the first server");
  if (chief_ == kNobody) chief_ = member;
  if (!hasEnded_) return carryOut(policy_->handle(Joined{member}));
  sayEnd(member);
  if (isOver_) sayOver(member);
}

void Leader::leave(MemberId member) {
  if (members_.erase(member) == 0) return;
  if (chief_ == member) {
    chief_ = members_.empty() ? kNobody : members_.begin()->first;
    if (chief_ != kNobody && hasEnded_) sayEnd(chief_);
  }
  carryOut(policy_->handle(Left{member}));
}

void Leader::halt(bool isInterrupted) {
  if (std::exchange(isHalted_, true)) return;
  isInterrupted_ = isInterrupted;
  carryOut(policy_->handle(Halted{}));
}

void Leader::settle(MemberId member) {
  // Another may have become chief meanwhile: it is its turn then.
  if (!hasEnded_ || !members_.contains(member) || member != chief_) return;
  isOver_ = true;
  for (const auto& [other, known] : members_) sayOver(other);
}

void Leader::finished(MemberId member, const wire::Finished& words) {
  const Work work = fromWire(words.work());
  require(work.grains.first >= 0 && work.grains.first < work.grains.last && work.grains.last <= grains_ &&
              words.losses_size() == work.grains.count(),
          "work has a loss for each grain");
  require(std::ranges::all_of(words.losses(), canBeAdded), "a grain has no such number of samples");
  require(outlets_.hasCome(work), "these gradients have not come");
  const std::vector<Decision> decisions = policy_->handle(Finished{member, work});
  const bool isDropped =
      std::ranges::any_of(decisions, [](const Decision& d) { return std::holds_alternative<Drop>(d); });
  if (!isDropped) addLosses(work, words);
  Member& known = members_.at(member);
  ++known.finished;
  known.lastStep = work.step;
  carryOut(decisions);
}

// When all grains of a step have a loss, its sum is told to everybody.
void Leader::addLosses(const Work& work, const wire::Finished& words) {
  auto& grains = losses_[work.step];
  grains.resize(static_cast<std::size_t>(grains_));
  for (int i = 0; i < work.grains.count(); ++i) {
    grains[static_cast<std::size_t>(work.grains.first) + static_cast<std::size_t>(i)] =
        fromWire(words.losses(i));
  }
  if (std::ranges::all_of(grains, [](const auto& loss) { return loss.has_value(); })) tellLosses(work.step);
}

void Leader::tellLosses(Step step) {
  const auto found = losses_.find(step);
  if (found == losses_.end()) return;
  const LossSum sum = treeSum(tree_, 0, found->second);
  losses_.erase(found);
  for (auto& [member, known] : members_) known.untold += sum;
}

// ---- telling

void Leader::carryOut(const std::vector<Decision>& decisions) {
  for (const Decision& decision : decisions) {
    std::visit([this](const auto& what) { on(what); }, decision);
  }
}

wire::State Leader::stateFor(MemberId member) {
  wire::State state;
  state.set_is_chief(member == chief_);
  state.set_done(policy_->progress().done);
  *state.mutable_loss() = toWire(std::exchange(members_.at(member).untold, {}));
  return state;
}

void Leader::on(const Assign& assign) {
  wire::Envelope message;
  wire::Assign& words = *message.mutable_assign();
  fill(*words.mutable_work(), assign.work);
  words.set_version(assign.version);
  fillCommit(words, lastCommit_);
  *words.mutable_state() = stateFor(assign.member);
  outlets_.say(assign.member, message);
}

void Leader::on(const Commit& commit) {
  tellLosses(commit.step);
  if (acceptance_ != Acceptance::OnCommit) return;
  lastCommit_ = commit;
  outlets_.commit(commit);
}

void Leader::on(const End&) {
  hasEnded_ = true;
  for (const auto& [member, known] : members_) sayEnd(member);
}

void Leader::sayEnd(MemberId member) {
  wire::Envelope message;
  wire::End& words = *message.mutable_end();
  words.set_is_interrupted(isInterrupted_);
  fillCommit(words, lastCommit_);
  *words.mutable_state() = stateFor(member);
  outlets_.say(member, message);
}

void Leader::sayOver(MemberId member) const {
  wire::Envelope message;
  message.mutable_over();
  outlets_.say(member, message);
}

}  // namespace cohort
