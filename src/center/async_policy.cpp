// Asynchronous training: a member's gradient is applied as soon as it comes, and nobody waits; with a bound on staleness, the
// fastest wait for the slowest (Ho et al. 2013: stale synchronous parallel).
#include <algorithm>
#include <map>
#include <utility>

#include "center/policy.h"
#include "center/work_ledger.h"

namespace cohort {
namespace {

class AsyncPolicy : public CenterPolicy {
 public:
  AsyncPolicy(const AsyncOptions& options, const Progress& from)
      : options_(options), ledger_(from, options.target) {}

  std::vector<Decision> handle(const Event& event) override {
    decisions_.clear();
    std::visit([this](const auto& what) { on(what); }, event);
    assignAll();
    if (!hasEnded_ && ledger_.isDone()) {
      hasEnded_ = true;
      decisions_.emplace_back(End{});
    }
    return std::exchange(decisions_, {});
  }

  Progress progress() const override { return ledger_.progress(); }

 private:
  void on(const Joined& event) { clocks_.emplace(event.member, slowest()); }
  void on(const Left& event) {
    clocks_.erase(event.member);
    ledger_.giveBack(event.member);
  }
  void on(const Finished& event) {
    const bool isWhole = event.work.grains == GrainRange{0, options_.grains};
    if (!isWhole || !ledger_.finish(event.member, event.work.step)) {
      decisions_.emplace_back(Drop{event.member, event.work});
      return;
    }
    ++clocks_[event.member];
  }
  void on(const Halted&) { ledger_.close(); }

  // Steps that the slowest member has finished; a new one counts as that far.
  Step slowest() const {
    if (clocks_.empty()) return 0;
    return std::ranges::min_element(clocks_, {}, [](const auto& clock) { return clock.second; })->second;
  }

  // One after the other, the slowest first, as long as somebody may have more.
  void assignAll() {
    const Step least = options_.staleness ? slowest() : 0;
    for (int round = 0; round <= options_.ahead; ++round) {
      for (const auto& [member, clock] : clocks_) {
        const int held = ledger_.held(member);
        if (held > round) continue;
        if (options_.staleness && clock + held - least > *options_.staleness) continue;
        const std::optional<Step> step = ledger_.take(member);
        if (!step) return;
        decisions_.emplace_back(Assign{member, {*step, {0, options_.grains}}, 0});
      }
    }
  }

  AsyncOptions options_;
  WorkLedger ledger_;
  std::map<MemberId, Step> clocks_;
  std::vector<Decision> decisions_;
  bool hasEnded_ = false;
};

}  // namespace

std::unique_ptr<CenterPolicy> asyncPolicy(const AsyncOptions& options, const Progress& from) {
  return std::make_unique<AsyncPolicy>(options, from);
}

}  // namespace cohort
