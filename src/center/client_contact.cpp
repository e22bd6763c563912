#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "center/client_impl.h"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kFirstBackOff{50};
constexpr std::chrono::milliseconds kLongestBackOff{2000};
constexpr std::chrono::milliseconds kLook{200};  // how often a waiting worker looks whether it shall go
constexpr double kGreetingSeconds = 10;
constexpr int kMostRefusals = 20;  // in a row, of a worker that means well

}  // namespace

// ---- hearing

void CenterClient::Impl::received(Server& server, const CenterMessage& message) {
  using What = wire::Envelope::WhatCase;
  const wire::Envelope& head = message.head;
  const std::lock_guard lock(mutex_);
  switch (head.what_case()) {
    case What::kWelcome:
      server.welcome = head.welcome();
      server.isWelcomeNew = server.isGreeted = true;
      break;
    case What::kPatience:
      server.isGreeted = true;
      break;
    case What::kOpened:
      server.isOpened = true;
      break;
    case What::kReceived:
      --server.unconfirmed;
      break;
    case What::kFloats:
      if (!server.pull || server.pull->ticket() != head.floats().ticket()) return;
      if (!server.pull->take(head.floats(), message.payload, sliceOf(server))) {
        refusal_ = fmt::format("{} sends floats that were not asked for", connector_->nameOf(server.index));
      } else if (server.pull->isDone) {
        server.version = server.pull->version;
        server.weights = {server.welcome ? server.welcome->life() : server.life, server.version};
      }
      break;
    case What::kAssign:
    case What::kEnd:
    case What::kOver:
      orders_.push_back(head);
      break;
    case What::kHalt:
      isHaltAsked_ = true;
      break;
    case What::kRefused:
      refused(server, head.refused());
      break;
    default:
      break;
  }
  changed_.notify_all();
}

// Where it is not its last word, this worker was overtaken by what others did, and comes again.
void CenterClient::Impl::refused(Server& server, const wire::Refused& refused) {
  const std::string sentence =
      fmt::format("{} refuses this worker: {}", connector_->nameOf(server.index), refused.sentence());
  if (refused.is_final() || ++refusals_ > kMostRefusals) refusal_ = sentence;
  server.isLost = true;
  server.why = sentence;
}

void CenterClient::Impl::closed(Server& server, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!server.isLost) server.why = why;
  server.isLost = true;
  changed_.notify_all();
}

// ---- waiting

void CenterClient::Impl::requireWanted() const {
  if (!refusal_.empty()) throw UsageError(refusal_);
}

bool CenterClient::Impl::isAnyLost() const {
  return std::ranges::any_of(servers_, [](const auto& server) { return server->isLost; });
}

bool CenterClient::Impl::hasPulled() const {
  return std::ranges::all_of(servers_,
                             [](const auto& server) { return !server->pull || server->pull->isDone; });
}

// One that is away, or has not answered yet; the first one where it is an order that is missing.
int CenterClient::Impl::awaitedServer() const {
  // Weights to come may wait for other workers; an answer to what was sent waits for nobody.
  const auto owesAnswer = [this](const auto& server) {
    return server->isLost || !server->welcome || !isConfirmed(*server);
  };
  const auto owesWeights = [](const auto& server) { return server->pull && !server->pull->isDone; };
  auto found = std::ranges::find_if(servers_, owesAnswer);
  if (found == servers_.end()) found = std::ranges::find_if(servers_, owesWeights);
  return found == servers_.end() ? 0 : (*found)->index;
}

void CenterClient::Impl::waitForNews(std::unique_lock<std::mutex>& lock, Leaving leaving) {
  if (hasEntered_ && std::exchange(isHaltAsked_, false)) halt(true);
  if (isAnyLost()) return recoverLost(lock);
  if (leaving == Leaving::Allowed && options_.isLeaving()) throw LeaveWanted();
  changed_.wait_for(lock, kLook);
}

void CenterClient::Impl::greet(Server& server, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  server.link.reset();  // nothing is heard over it after this
  const Step checkpoint = options_.newestCheckpoint();
  lock.lock();
  server.welcome.reset();
  server.isLost = server.isGreeted = server.isWelcomeNew = server.isOpened = false;
  server.unconfirmed = 0;
  server.greetedIn = opening_;
  ++server.greetings;
  wire::Envelope envelope;
  wire::Hello& hello = *envelope.mutable_hello();
  hello.set_protocol(kProtocol);
  hello.set_server(static_cast<std::uint32_t>(server.index));
  hello.set_servers(static_cast<std::uint32_t>(connector_->servers()));
  hello.set_token(token_);
  hello.set_name(options_.name);
  hello.set_opening(opening_);
  hello.set_life(server.life);
  hello.set_version(server.version);
  hello.set_checkpoint(checkpoint);
  lock.unlock();
  server.link = connector_->connect(server.index, server);
  server.link->send(envelope);
  lock.lock();
}

void CenterClient::Impl::recoverLost(std::unique_lock<std::mutex>& lock) {
  const Clock::time_point start = Clock::now();
  for (const auto& server : servers_) {
    std::chrono::milliseconds backOff{0};
    while (server->isLost) {
      requireWanted();
      if (options_.isLeaving()) throw LeaveWanted();
      if (secondsSince(start) > options_.recoveryWait) {
        throw PeerError(fmt::format("{} did not come back within {:g} s (--recovery-wait): {}",
                                    connector_->nameOf(server->index), options_.recoveryWait, server->why));
      }
      lock.unlock();
      std::this_thread::sleep_for(backOff);
      lock.lock();
      backOff = std::clamp(2 * backOff, kFirstBackOff, kLongestBackOff);
      greet(*server, lock);
      changed_.wait_for(lock, std::chrono::duration<double>(kGreetingSeconds),
                        [&] { return server->isGreeted || server->isLost || !refusal_.empty(); });
      if (!server->isGreeted) server->isLost = true;
    }
  }
}

// ---- going on

// The present work is another's: it was given to the first server's other workers, or the run was opened anew.
void CenterClient::Impl::abandon() {
  orders_.clear();
  pushed_.clear();
  for (const auto& server : servers_) server->pull.reset();
  isAbandoned_ = work_.has_value();
  ++breaks_;
}

void CenterClient::Impl::dealWithWelcomes() {
  for (const auto& server : servers_) {
    if (!std::exchange(server->isWelcomeNew, false)) continue;
    if (server->index == 0) {
      dealWithLeader(*server);
    } else {
      goOnWith(*server);
    }
  }
}

void CenterClient::Impl::noteLoss(const Server& server, Step lost) {
  notices_.push_back(fmt::format("{} came back from its snapshot: {} updates of its parameters are lost",
                                 connector_->nameOf(server.index), lost));
}

void CenterClient::Impl::dealWithLeader(const Server& leader) {
  const wire::Welcome& welcome = *leader.welcome;
  abandon();
  // What the others said is of the time before: they are asked anew.
  for (const auto& other : servers_) {
    if (other->index == 0) continue;
    other->isLost = true;
    other->why = "the first server was away";
  }
  if (!welcome.is_open()) {
    invitedBy_ = leader.greetings;
    *orders_.emplace_back().mutable_welcome() = welcome;
    return;
  }
  if (welcome.config() != config_) {
    refusal_ = fmt::format("the run at {} was opened again with other settings than this worker's",
                           connector_->nameOf(0));
    return;
  }
  if (welcome.opening() != opening_) {
    opening_ = welcome.opening();
    for (const auto& server : servers_) server->version = 0;  // what they had is no more
  } else if (welcome.life() != leader.life && leader.version > welcome.version()) {
    noteLoss(leader, leader.version - welcome.version());
  }
  servers_.front()->life = welcome.life();
  hasBegun_ = false;
  sayEnter();
}

void CenterClient::Impl::askToReopen() {
  wire::Envelope reopen;
  reopen.mutable_reopen()->set_opening(opening_);
  say(reopen);
}

// One that was away is there again, with what it had, or without.
void CenterClient::Impl::goOnWith(Server& server) {
  const wire::Welcome& welcome = *server.welcome;
  const bool isInThisRun = welcome.is_open() && welcome.opening() == opening_;
  // What it said before the run was opened again is no news: it is asked anew.
  if (!isInThisRun && server.greetedIn != opening_) {
    server.isLost = true;
    server.why = "it has no run";
    return;
  }
  const bool isAnother = welcome.life() != std::exchange(server.life, welcome.life());
  const Step lost = isAnother ? std::max<Step>(0, server.version - welcome.version()) : 0;
  if (!isInThisRun || (acceptance_ != Acceptance::AtOnce && lost > 0)) return askToReopen();
  if (lost > 0) noteLoss(server, lost);
  server.version = std::min(server.version, welcome.version());
  if (work_ && !isAbandoned_) expectConfirmations(server);
  for (const Pushed& pushed : pushed_) send(server, pushed);
  if (server.pull && !server.pull->isDone) {
    server.pull->forget();
    server.link->send(server.pull->request);
  }
}

}  // namespace cohort
