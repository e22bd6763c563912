// What a center's first server knows beyond its parameters: who the members are, what each computes, the losses, and which member
// is the chief, who evaluates and keeps checkpoints. From its opening to its end.
//
// Used by one thread; no clock, no socket. Private to center.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/trainable.h"
#include "center/center.pb.h"
#include "center/setup.h"

namespace cohort {

class Leader {
 public:
  struct Outlets {
    std::function<void(MemberId, const wire::Envelope&)> say;
    // Whether its gradient is with this server.
    std::function<bool(const Work&)> hasCome;
    // These grains make an update, now.
    std::function<void(const Commit&)> commit;
  };
  Leader(const CenterSetup& setup, const Progress& from, std::int64_t dropped, Outlets outlets);

  struct Member {
    LossSum untold;     // losses since the last word to it
    Step finished = 0;  // works
    Step lastStep = -1;
  };
  // Nothing where it is none.
  const Member* find(MemberId member) const;
  bool hasMembers() const { return !members_.empty(); }

  void enter(MemberId member);
  void leave(MemberId member);
  // Throws Nonsense where that cannot be.
  void finished(MemberId member, const wire::Finished& words);
  // See Center::halt.
  void halt(bool isInterrupted);
  // The chief's last duties are done; nobody else's count.
  void settle(MemberId member);

  MemberId chief() const { return chief_; }
  bool hasEnded() const { return hasEnded_; }
  bool isOver() const { return isOver_; }
  std::int64_t dropped() const { return dropped_; }
  Progress progress() const { return policy_->progress(); }

 private:
  static constexpr MemberId kNobody = -1;

  void addLosses(const Work& work, const wire::Finished& words);
  void tellLosses(Step step);
  void carryOut(const std::vector<Decision>& decisions);
  void on(const Assign& assign);
  void on(const Commit& commit);
  void on(const Drop&) { ++dropped_; }
  void on(const End&);
  void sayEnd(MemberId member);
  void sayOver(MemberId member) const;
  wire::State stateFor(MemberId member);

  int grains_;
  Acceptance acceptance_;
  Outlets outlets_;
  GrainTree tree_;
  std::unique_ptr<CenterPolicy> policy_;
  std::map<MemberId, Member> members_;
  MemberId chief_ = kNobody;
  std::map<Step, std::vector<std::optional<LossSum>>> losses_;  // of steps that are not done, by grain
  std::optional<Commit> lastCommit_;
  std::int64_t dropped_;
  bool isHalted_ = false;
  bool isInterrupted_ = false;
  bool hasEnded_ = false;
  bool isOver_ = false;
};

}  // namespace cohort
