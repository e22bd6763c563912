// Synchronous training through the center: a step's grains are divided among those who are there when it begins, and its update is
// made when all parts have come, or all but some (Chen et al. 2016: backup workers).
#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "center/policy.h"

namespace cohort {
namespace {

class SynchronousPolicy : public CenterPolicy {
 public:
  SynchronousPolicy(const SynchronousOptions& options, const Progress& from)
      : options_(options), step_(from.done), hasBegun_(from.done > 0) {
    COHORT_CHECK(options.backups == 0 || options.backups < options.members, "somebody is waited for");
  }

  std::vector<Decision> handle(const Event& event) override {
    decisions_.clear();
    std::visit([this](const auto& what) { on(what); }, event);
    if (parts_.empty()) beginStep();
    return std::exchange(decisions_, {});
  }

  Progress progress() const override { return {.done = step_, .next = step_, .open = {}}; }

 private:
  static constexpr MemberId kNobody = -1;

  struct Part {
    GrainRange grains;
    MemberId owner = kNobody;
    bool isDone = false;
  };

  void on(const Joined& event) {
    members_.emplace(event.member, std::nullopt);
    giveWork(event.member);
  }

  void on(const Left& event) {
    members_.erase(event.member);
    for (Part& part : parts_) {
      if (part.owner == event.member && !part.isDone) part.owner = kNobody;
    }
    for (const auto& [member, work] : members_) giveWork(member);
  }

  void on(const Finished& event) {
    const auto member = members_.find(event.member);
    if (member == members_.end() || member->second != event.work) {
      decisions_.emplace_back(Drop{event.member, event.work});
      return;
    }
    member->second.reset();
    const auto part =
        std::ranges::find_if(parts_, [&](const Part& p) { return p.grains == event.work.grains; });
    if (event.work.step != step_ || part == parts_.end() || part->isDone) {
      decisions_.emplace_back(Drop{event.member, event.work});
    } else {
      part->isDone = true;
      part->owner = event.member;
      if (std::ranges::count_if(parts_, &Part::isDone) >= needed()) return endStep();
    }
    giveWork(event.member);
  }

  void on(const Halted&) {
    isHalted_ = true;
    if (parts_.empty()) end();
  }

  std::ptrdiff_t needed() const { return std::max<std::ptrdiff_t>(1, std::ssize(parts_) - options_.backups); }

  void beginStep() {
    if (hasEnded_) return;
    if (step_ >= options_.target || isHalted_) return end();
    const int count = static_cast<int>(members_.size());
    if (count < (hasBegun_ ? options_.backups + 1 : options_.members)) return;
    hasBegun_ = true;
    const int parts = std::min(count, options_.grains);
    int index = 0;
    for (const auto& [member, work] : members_) {
      if (index == parts) break;
      parts_.push_back({.grains = shareOf({0, options_.grains}, {index++, parts}), .owner = member});
    }
    for (const auto& [member, work] : members_) giveWork(member);
  }

  void endStep() {
    Commit commit{.step = step_, .grains = {}};
    for (const Part& part : parts_) {
      if (part.isDone) commit.grains.push_back(part.grains);
    }
    decisions_.emplace_back(std::move(commit));
    parts_.clear();
    ++step_;
  }

  void end() {
    if (!std::exchange(hasEnded_, true)) decisions_.emplace_back(End{});
  }

  // To a member without any: its own part, or one whose member has left.
  void giveWork(MemberId member) {
    std::optional<Work>& work = members_.at(member);
    if (work) return;
    auto part = std::ranges::find_if(parts_, [&](const Part& p) { return p.owner == member && !p.isDone; });
    if (part == parts_.end()) {
      part = std::ranges::find_if(parts_, [](const Part& p) { return p.owner == kNobody; });
    }
    if (part == parts_.end()) return;
    part->owner = member;
    work = Work{step_, part->grains};
    decisions_.emplace_back(Assign{member, *work, step_});
  }

  SynchronousOptions options_;
  Step step_;
  bool hasBegun_;  // the first step waits for all; after a restart, some may have left for good
  bool isHalted_ = false;
  bool hasEnded_ = false;
  std::map<MemberId, std::optional<Work>> members_;  // with what each computes
  std::vector<Part> parts_;                          // of this step; none before it begins
  std::vector<Decision> decisions_;
};

}  // namespace

std::unique_ptr<CenterPolicy> synchronousPolicy(const SynchronousOptions& options, const Progress& from) {
  return std::make_unique<SynchronousPolicy>(options, from);
}

}  // namespace cohort
