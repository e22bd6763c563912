#include "center/center.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "center/protocol.h"
#include "center/setup_wire.h"

namespace cohort {
namespace {

constexpr int kMostArenas = 8;               // in one answer
constexpr std::size_t kMostAssemblies = 64;  // gradients on their way from one worker
constexpr int kMostOwnSteps = 1 << 19;       // between two exchanges

}  // namespace

void Center::opened(LinkId id, Link& link) {
  peers_[id].link = &link;
}

bool Center::received(LinkId id, const CenterMessage& message) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return false;
  wire::Envelope answer;
  wire::Refused& refused = *answer.mutable_refused();
  try {
    handle(id, found->second, message);
    return true;
  } catch (const UsageError& error) {
    refused.set_sentence(error.what());
    refused.set_is_final(true);
  } catch (const std::exception& error) {
    // Also an honest worker's word may have been overtaken by what others did.
    refused.set_sentence(error.what());
  }
  found->second.link->send(answer);
  closed(id);
  return false;
}

void Center::closed(LinkId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer peer = std::move(found->second);
  peers_.erase(found);
  for (auto& [key, assembly] : peer.assemblies) store_->freeBuffer(std::move(assembly.floats));
  if (opener_ == id) {
    loseOpener();
    welcomeWaiting();
  }
  leave(peer);
}

void Center::loseOpener() {
  opener_.reset();
  loading_.reset();
  if (!isOpen_) store_.reset();
}

void Center::leave(const Peer& peer) {
  if (store_ && store_->leave(peer.ownWeights)) journalLeave(peer);
  if (leader_) leader_->leave(peer.member);
}

void Center::halt(bool isInterrupted) {
  if (!leads()) {
    wire::Envelope message;
    message.mutable_halt()->set_is_interrupted(isInterrupted);
    for (const auto& [id, peer] : peers_) {
      if (peer.hasGreeted) peer.link->send(message);
    }
    return;
  }
  if (halt_) return;
  halt_ = isInterrupted;
  if (leader_) leader_->halt(isInterrupted);
}

void Center::handle(LinkId id, Peer& peer, const CenterMessage& message) {
  using What = wire::Envelope::WhatCase;
  const wire::Envelope& head = message.head;
  bytesReceived_ += message.payload.size();
  if (head.has_ask_status()) return tellStatus(peer);
  require(peer.hasGreeted || head.has_hello(), "the first word is a greeting");
  switch (head.what_case()) {
    case What::kHello:
      return on(id, peer, head.hello());
    case What::kSetup:
      return on(id, peer, head.setup());
    case What::kLoad:
      return on(id, peer, head.load(), message.payload);
    case What::kLoaded:
      return on(id, peer, head.loaded());
    case What::kEnter:
      return on(peer, head.enter());
    case What::kPush:
      return on(peer, head.push(), message.payload);
    case What::kPull:
      return on(peer, head.pull());
    case What::kFinished:
      return on(peer, head.finished());
    case What::kReopen:
      return on(peer, head.reopen());
    case What::kHalt:
      return isMember(peer) ? halt(head.halt().is_interrupted()) : void();
    case What::kSettled:
      return on(peer, head.settled());
    case What::kBye:
      return leave(peer);
    default:
      throw Nonsense("that is no word of a worker");
  }
}

// ---- gradients and weights

ArenaRange Center::rangeOf(std::uint64_t offset, const Payload& payload) const {
  const ArenaRange slice = store_->slice();
  require(payload.size() > 0 && payload.size() % sizeof(float) == 0, "floats have four bytes each");
  const std::size_t count = payload.size() / sizeof(float);
  require(offset >= slice.begin && offset <= slice.end && count <= slice.end - offset,
          "these floats are not this server's");
  return {offset, offset + count};
}

// A worker that takes a server for being in another opening than it is: it is told, once. Who is right, the first server knows;
// that one welcomes everybody again where it is its own that has changed.
bool Center::isMisled(Peer& peer, std::uint64_t opening) {
  if (isOpen_ && !isOfAnother(opening)) return false;
  if (leads() || std::exchange(peer.isCorrected, true)) return true;
  wire::Envelope answer;
  fillWelcome(*answer.mutable_welcome(), peer);
  peer.link->send(answer);
  return true;
}

void Center::on(Peer& peer, const wire::Push& push, const Payload& payload) {
  if (isMisled(peer, push.opening())) return;
  require(push.step() >= 0 && push.step() < setup_->target && push.node() >= 0 &&
              push.node() < 2 * setup_->grains - 1 && push.basis() >= 0,
          "a gradient belongs to a node of a step");
  const bool isWhole = push.node() == 0;
  require(acceptanceOf(setup_->rule) == Acceptance::AtOnce ? isWhole : push.step() <= store_->version(),
          "a gradient is a whole batch's where it counts alone, and of no step to come where not");
  require(journal_ == nullptr || acceptanceOf(setup_->rule) != Acceptance::AtOnce ||
              push.seen_size() == place_.count,
          "a gradient says which weights it was computed with");
  if (setup_->rule.hasOwnWeights) requireExchange(peer, push);
  const bool isLetter = payload.size() > 0 || applicationOf(setup_->rule) != Application::Mail;
  const ArenaRange range = isLetter ? rangeOf(push.offset(), payload) : ArenaRange{};
  if (leads() && !isMember(peer)) return;  // it was, in an earlier opening
  if (!isLetter) return takeWhole(peer, push, push.basis(), {});
  const ArenaRange slice = store_->slice();
  const std::pair key{push.step(), push.node()};
  auto found = peer.assemblies.find(key);
  if (found == peer.assemblies.end()) {
    require(peer.assemblies.size() < kMostAssemblies, "there are too many gradients on their way");
    found =
        peer.assemblies.emplace(key, Assembly{.basis = push.basis(), .floats = store_->takeBuffer()}).first;
  }
  Assembly& assembly = found->second;
  require(assembly.coverage.add(range), "these floats came before");
  payload.copyTo(
      std::as_writable_bytes(assembly.floats.span().subspan(range.begin - slice.begin, range.size())));
  if (assembly.coverage.covered() < slice.size()) return;
  FloatBuffer gradient = std::move(assembly.floats);
  const Step basis = assembly.basis;
  peer.assemblies.erase(found);
  takeWhole(peer, push, basis, std::move(gradient));
}

void Center::takeWhole(Peer& peer, const wire::Push& push, Step basis, FloatBuffer gradient) {
  if (!take(peer, push, basis, std::move(gradient))) ++duplicates_;
  wire::Envelope answer;
  answer.mutable_received()->set_step(push.step());
  answer.mutable_received()->set_node(push.node());
  peer.link->send(answer);
  answerPulls();
}

bool Center::take(const Peer& peer, const wire::Push& push, Step basis, FloatBuffer gradient) {
  if (hasExchanged(push)) {
    if (gradient.size() > 0) store_->freeBuffer(std::move(gradient));
    return false;
  }
  const Step version = store_->version();
  bool isTaken = true;
  if (applicationOf(setup_->rule) == Application::Mail) {
    store_->visit({push.exchange().weights(), push.exchange().number()}, std::move(gradient));
  } else {
    isTaken = store_->push({.step = push.step(), .node = push.node(), .basis = basis}, std::move(gradient));
  }
  if (push.has_exchange()) exchanged_[push.exchange().weights()] = push.exchange().number();
  if (store_->version() > version) journalPush(peer, push, basis);
  return isTaken;
}

// What a worker did with its own weights is written down as it says.
void Center::requireExchange(Peer& peer, const wire::Push& push) const {
  const wire::Exchange& exchange = push.exchange();
  const auto isStep = [this](Step step) { return step >= 0 && step < setup_->target; };
  require(exchange.number() >= 1 && exchange.steps_size() >= 1 && exchange.steps_size() <= kMostOwnSteps &&
              std::ranges::all_of(exchange.steps(), isStep) && *exchange.steps().rbegin() == push.step() &&
              push.seen_size() == place_.count &&
              exchange.begun_with_size() == (exchange.number() == 1 ? place_.count : 0),
          "an exchange says which steps were made since the last");
  require(exchange.weights() != 0 && (peer.ownWeights == 0 || peer.ownWeights == exchange.weights()),
          "who begins anew enters again");
  peer.ownWeights = exchange.weights();
}

bool Center::hasExchanged(const wire::Push& push) const {
  const auto found = exchanged_.find(push.exchange().weights());
  return push.has_exchange() && found != exchanged_.end() && push.exchange().number() <= found->second;
}

void Center::on(Peer& peer, const wire::Pull& pull) {
  if (isMisled(peer, pull.opening())) return;
  // The first server has committed before it told anybody.
  if (!leads() && pull.has_commit_step() && store_->version() == pull.commit_step()) {
    require(acceptanceOf(setup_->rule) == Acceptance::OnCommit, "nobody commits under this rule");
    std::vector<GrainRange> grains;
    for (const wire::Range& range : pull.commit()) {
      require(range.first() >= 0 && range.first() < range.last() && range.last() <= setup_->grains,
              "grains are those of the step");
      grains.push_back({range.first(), range.last()});
    }
    require(!grains.empty() && commit(pull.commit_step(), grains), "these gradients have not come");
    answerPulls();
  }
  require(pull.arenas_size() >= 1 && pull.arenas_size() <= kMostArenas, "it asks for nothing, or too much");
  const bool isMail = pull.arenas(0) == kMail && pull.arenas_size() == 1;
  require(!isMail || (applicationOf(setup_->rule) == Application::Mail && peer.ownWeights != 0),
          "there is no mail for it");
  for (const std::string& arena : pull.arenas()) {
    if (!isMail) arenaCalled(arena);
  }
  const WaitingPull wanted{.arenas = {pull.arenas().begin(), pull.arenas().end()},
                           .version = pull.version(),
                           .ticket = pull.ticket()};
  peer.pull = wanted;
  answerPulls();
}

void Center::answerPulls() {
  for (auto& [id, peer] : peers_) {
    if (peer.pull && store_->version() >= peer.pull->version) answer(peer, *std::exchange(peer.pull, {}));
  }
}

void Center::answer(Peer& peer, const WaitingPull& pull) {
  if (journal_ != nullptr) journal_->flush();  // what somebody has seen can be computed again
  if (pull.arenas.front() == kMail) return answerMail(peer, pull);
  for (std::size_t arena = 0; arena < pull.arenas.size(); ++arena) {
    const std::string& name = pull.arenas[arena];
    wire::Envelope answer;
    wire::Floats& floats = *answer.mutable_floats();
    floats.set_ticket(pull.ticket);
    floats.set_version(store_->version());
    floats.set_arena(static_cast<std::uint32_t>(arena));
    send(peer, answer, name == kWeights ? store_->snapshot() : store_->copyOf(arenaCalled(name)));
  }
}

// A whole slice.
void Center::send(const Peer& peer, wire::Envelope& words, const std::shared_ptr<const FloatBuffer>& values) {
  for (std::size_t at = 0; at < values->size(); at += kFrameFloats) {
    words.mutable_floats()->set_offset(store_->slice().begin + at);
    const std::size_t count = std::min(kFrameFloats, values->size() - at);
    peer.link->send(words, values->span().subspan(at, count), values);
    bytesSent_ += count * sizeof(float);
  }
}

// What its last visit has found. One that was heard in an earlier life of this server has found nothing here.
void Center::answerMail(const Peer& peer, const WaitingPull& pull) {
  const auto last = exchanged_.find(peer.ownWeights);
  const GossipPost::Found* found =
      last == exchanged_.end() ? nullptr : store_->post().foundBy({last->first, last->second});
  const bool isAnything = found != nullptr && found->part > 0;
  wire::Envelope answer;
  wire::Floats& floats = *answer.mutable_floats();
  floats.set_ticket(pull.ticket);
  floats.set_version(found != nullptr ? found->version : store_->version());
  floats.set_part(isAnything ? found->part : 0);
  if (isAnything) return send(peer, answer, found->letters);
  peer.link->send(answer);
}

void Center::on(Peer& peer, const wire::Finished& finished) {
  if (!isMember(peer) || isOfAnother(finished.opening())) return;
  leader_->finished(peer.member, finished);
}

bool Center::hasMembers() const {
  if (leads()) return leader_ && leader_->hasMembers();
  return std::ranges::any_of(peers_, [](const auto& entry) { return entry.second.hasGreeted; });
}

}  // namespace cohort
