// What a server tells of itself, and what it keeps on its disk.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "center/center.h"
#include "center/setup_wire.h"

namespace cohort {

void Center::tellStatus(const Peer& asker) const {
  wire::Envelope answer;
  wire::Status& status = *answer.mutable_status();
  status.set_is_open(isOpen_);
  status.set_duplicates(duplicates_);
  status.set_lost(lostBefore_ + lost_);
  status.set_bytes_received(bytesReceived_);
  status.set_bytes_sent(bytesSent_);
  if (isOpen_) {
    status.set_rule(setup_->rule.name);
    if (setup_->target != kNoTarget) status.set_target(setup_->target);
    status.set_version(store_->version());
    status.set_floats(store_->slice().size());
    status.set_update_seconds(store_->updateSeconds());
    for (const std::int64_t count : store_->stalenessCounts()) status.add_staleness(count);
    if (applicationOf(setup_->rule) == Application::Mail) {
      const GossipShares::Sums sums = store_->post().shares().sums();
      status.mutable_shares()->set_workers(sums.workers);
      status.mutable_shares()->set_mail(sums.mail);
      status.mutable_shares()->set_nobodys(sums.nobodys);
    }
  }
  if (leader_) {
    status.set_done(leader_->progress().done);
    status.set_dropped(leader_->dropped());
    for (const auto& [id, peer] : peers_) {
      const Leader::Member* known = leader_->find(peer.member);
      if (known == nullptr) continue;
      wire::Status::Member& member = *status.add_members();
      member.set_name(peer.name);
      member.set_finished(known->finished);
      member.set_step(known->lastStep);
      member.set_is_chief(peer.member == leader_->chief());
    }
  }
  asker.link->send(answer);
}

// ---- what is kept of every update

void Center::beginJournal(std::optional<std::uint64_t> parent) {
  if (journal_ == nullptr) return;
  journal_->begin({.setup = *setup_,
                   .server = place_.index,
                   .servers = place_.count,
                   .life = place_.life,
                   .version = store_->version(),
                   .parent = parent});
}

void Center::journalPush(const Peer& peer, const wire::Push& push, Step basis) {
  if (journal_ == nullptr) return;
  seen_.clear();
  const bool isAlone = acceptanceOf(setup_->rule) == Acceptance::AtOnce;
  if (isAlone) {
    for (const wire::ServerVersion& version : push.seen())
      seen_.push_back({version.life(), version.version()});
  }
  begunWith_.clear();
  const wire::Exchange& exchange = push.exchange();
  for (const wire::ServerVersion& version : exchange.begun_with())
    begunWith_.push_back({version.life(), version.version()});
  journal_->add({.member = isAlone ? peer.member : -1,
                 .step = push.step(),
                 .basis = basis,
                 .seen = seen_,
                 .exchange = exchange.number(),
                 .steps = {exchange.steps().data(), static_cast<std::size_t>(exchange.steps_size())},
                 .begunWith = begunWith_},
                push.has_exchange() ? exchange.weights() : peer.token);
}

void Center::journalLeave(const Peer& peer) {
  if (journal_ != nullptr) journal_->add({.member = peer.member, .isLeaving = true}, peer.ownWeights);
}

bool Center::commit(Step step, std::vector<GrainRange> grains) {
  if (!store_->commit(step, grains)) return false;
  if (journal_ == nullptr) return true;
  // In order, and those that touch as one: whoever computed them.
  std::ranges::sort(grains, {}, &GrainRange::first);
  std::size_t last = 0;
  for (const GrainRange& range : grains) {
    if (range.first > grains[last].last) grains[++last] = range;
    grains[last].last = std::max(grains[last].last, range.last);
  }
  grains.resize(last + 1);
  if (grains.front().count() == setup_->grains) grains.clear();
  journal_->add({.step = step, .grains = grains}, 0);
  return true;
}

// ---- to the disk and back

bool Center::hasSnapshot() const {
  return isOpen_ && !isOver_ && !(leader_ && leader_->hasEnded()) &&
         acceptanceOf(setup_->rule) == Acceptance::AtOnce;
}

Snapshot Center::snapshot() {
  if (journal_ != nullptr) journal_->flush();
  Snapshot snapshot;
  wire::Snapshot& head = snapshot.head;
  *head.mutable_setup() = toWire(*setup_);
  head.set_server(static_cast<std::uint32_t>(place_.index));
  head.set_servers(static_cast<std::uint32_t>(place_.count));
  head.set_version(store_->version());
  head.set_lost(lostBefore_ + lost_);
  head.set_life(place_.life);
  setApplied(head, store_->applied());
  for (const auto& [weights, number] : exchanged_) {
    wire::Snapshot::Exchanged& last = *head.add_exchanged();
    last.set_weights(weights);
    last.set_number(number);
  }
  if (leader_) {
    const Progress progress = leader_->progress();
    head.set_done(progress.done);
    head.set_next(progress.next);
    for (const Step step : progress.open) head.add_open(step);
    head.set_dropped(leader_->dropped());
  }
  const auto add = [&](std::span<const float> values) {
    std::ranges::copy(values, snapshot.arenas.emplace_back(values.size()).data());
  };
  add(store_->weights());
  for (const Shard::Slot& slot : store_->slots()) add(slot.values);
  return snapshot;
}

void Center::restore(Snapshot snapshot) {
  const wire::Snapshot& head = snapshot.head;
  if (head.server() != static_cast<std::uint32_t>(place_.index) ||
      head.servers() != static_cast<std::uint32_t>(place_.count)) {
    throw UsageError(fmt::format("the snapshot is of server {} of {}, and this is server {} of {}",
                                 head.server(), head.servers(), place_.index, place_.count));
  }
  setUp(cohort::fromWire(head.setup()));
  StepSet applied = appliedOf(head);
  std::ranges::copy(snapshot.arenas.front().span(), store_->weights().begin());
  std::size_t next = 1;
  for (const Shard::Slot& slot : store_->slots())
    std::ranges::copy(snapshot.arenas[next++].span(), slot.values.begin());
  store_->restore(head.version(), std::move(applied));
  for (const wire::Snapshot::Exchanged& last : head.exchanged()) exchanged_[last.weights()] = last.number();
  isOpen_ = true;
  restored_ = head.version();
  lostBefore_ = head.lost();
  beginJournal(head.life());
  if (!leads()) return;
  lead({.done = head.done(), .next = head.next(), .open = {head.open().begin(), head.open().end()}},
       head.dropped());
}

}  // namespace cohort
