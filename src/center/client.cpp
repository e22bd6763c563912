#include "center/client.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "center/coverage.h"
#include "center/link.h"
#include "center/protocol.h"
#include "center/setup_wire.h"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kFirstBackOff{50};
constexpr std::chrono::milliseconds kLongestBackOff{2000};
constexpr double kGreetingSeconds = 10;

std::uint64_t newToken() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

CenterClient::RunState stateOf(const wire::State& state) {
  return {.isChief = state.is_chief(),
          .done = state.done(),
          .loss = fromWire(state.loss()),
          .members = state.members(),
          .dropped = state.dropped()};
}

}  // namespace

class CenterClient::Impl {
 public:
  Impl(std::shared_ptr<Connector> servers, const Options& options)
      : connector_(std::move(servers)), options_(options), token_(newToken()) {
    for (int i = 0; i < connector_->servers(); ++i) servers_.push_back(std::make_unique<Server>(*this, i));
  }
  ~Impl() {
    for (const auto& server : servers_) {
      if (!server->link) continue;
      wire::Envelope bye;
      bye.mutable_bye();
      server->link->send(bye);
      server->link->close();
    }
    // Before anything goes that a listener touches.
    for (const auto& server : servers_) server->link.reset();
  }

  Welcome join();
  void open(const CenterSetup& setup, const std::vector<Arena>& state);
  void enter(const CenterSetup& setup, std::span<float> weights);
  Order next();
  void push(int node, const ArenaRange& range, std::span<const float> sums);
  void finish(std::span<const LossSum> losses);
  std::optional<Step> fetch(const std::vector<ArenaToFill>& arenas);
  std::vector<std::string> takeNotices();
  void halt(bool isInterrupted) {
    wire::Envelope envelope;
    envelope.mutable_halt()->set_is_interrupted(isInterrupted);
    say(envelope);
  }
  void say(const wire::Envelope& envelope) { servers_.front()->link->send(envelope); }
  void sayToAll(const wire::Envelope& envelope) {
    for (const auto& server : servers_) server->link->send(envelope);
  }
  Traffic traffic() const { return {.sent = sent_, .received = received_}; }

 private:
  // Floats that were asked for.
  struct Pull {
    std::uint64_t ticket = 0;
    wire::Envelope request{};
    std::vector<std::span<float>> values{};
    std::vector<Coverage> coverage{};  // of each
    Step version = 0;

    std::size_t covered() const {
      std::size_t sum = 0;
      for (const Coverage& one : coverage) sum += one.covered();
      return sum;
    }
    bool isDone = false;
  };

  struct Server : LinkListener {
    Server(Impl& owner, int number) : impl(owner), index(number) {}
    void received(Message message) override { impl.received(*this, message); }
    void closed(const std::string& reason) override { impl.closed(*this, reason); }

    Impl& impl;
    int index;
    std::unique_ptr<Link> link;
    // Under the mutex.
    bool isLost = true;
    std::string why;
    bool isGreeted = false;
    std::uint64_t greetedIn = 0;  // which opening of the run was known then
    std::optional<wire::Welcome> welcome;
    bool isWelcomeNew = false;  // and not dealt with
    bool isOpened = false;
    Step version = 0;     // of the weights that this worker has
    int unconfirmed = 0;  // nodes of the present work whose gradient it has not confirmed
    std::optional<Pull> pull;
  };

  // A part of a gradient of the present work.
  struct Pushed {
    int node = 0;
    ArenaRange range;
    std::span<const float> sums;
  };

  void received(Server& server, const Message& message);
  void closed(Server& server, const std::string& why);
  void receivedFloats(Server& server, const wire::Floats& floats, const Payload& payload);

  template <class Condition>
  void wait(Condition&& condition);
  void recover(std::unique_lock<std::mutex>& lock);
  void greet(Server& server, std::unique_lock<std::mutex>& lock);
  void dealWithWelcomes();
  void abandon();
  void goOnWith(Server& server);
  void askToReopen();
  void sayEnter();
  bool mayTake(const wire::Envelope& order) const;
  std::optional<Order> tryNext();
  void requireWanted() const;
  void send(Server& server, const Pushed& pushed);
  void ask(Server& server, const std::vector<ArenaToFill>& arenas, Step version, wire::Envelope request);
  std::vector<ArenaToFill> weightsAlone() const { return {{std::string(kWeights), weights_}}; }
  ArenaRange sliceOf(const Server& server) const {
    return sliceOfServer(arenaSize_, server.index, connector_->servers());
  }
  bool isConfirmed(const Server& server) const { return isAbandoned_ || server.unconfirmed <= 0; }
  void expectConfirmations(Server& server) const {
    server.unconfirmed = static_cast<int>(tree_->cover(work_->grains).size());
  }
  bool hasPulled() const {
    return std::ranges::all_of(servers_, [](const auto& s) { return !s->pull || s->pull->isDone; });
  }

  std::shared_ptr<Connector> connector_;
  Options options_;
  std::uint64_t token_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::size_t arenaSize_ = 0;
  Acceptance acceptance_ = Acceptance::AtOnce;
  std::optional<GrainTree> tree_;
  std::span<float> weights_;
  bool hasEntered_ = false;
  std::uint64_t lastTicket_ = 0;
  std::uint64_t opening_ = 0;
  std::atomic<std::uint64_t> sent_ = 0;
  std::atomic<std::uint64_t> received_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string refusal_;
  std::deque<wire::Envelope> orders_;
  std::optional<Work> work_;    // the present one
  std::vector<Pushed> pushed_;  // of it
  bool isAbandoned_ = false;    // it is another's now
  std::uint64_t breaks_ = 0;    // how often that happened, with work or without
  bool isHaltAsked_ = false;    // by a server that does not lead
  std::vector<std::string> notices_;
};

// ---- hearing

void CenterClient::Impl::received(Server& server, const Message& message) {
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
      receivedFloats(server, head.floats(), message.payload);
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
      refusal_ = fmt::format("{} refuses this worker: {}", connector_->nameOf(server.index),
                             head.refused().sentence());
      break;
    default:
      break;
  }
  changed_.notify_all();
}

void CenterClient::Impl::receivedFloats(Server& server, const wire::Floats& floats, const Payload& payload) {
  if (!server.pull || server.pull->ticket != floats.ticket()) return;
  Pull& pull = *server.pull;
  const ArenaRange slice = sliceOf(server);
  const std::size_t count = payload.size() / sizeof(float);
  const bool fits = payload.size() % sizeof(float) == 0 && floats.arena() < pull.values.size() &&
                    floats.offset() >= slice.begin && floats.offset() <= slice.end &&
                    count <= slice.end - floats.offset();
  if (!fits || !pull.coverage[floats.arena()].add({floats.offset(), floats.offset() + count})) {
    refusal_ = fmt::format("{} sends floats that were not asked for", connector_->nameOf(server.index));
    return;
  }
  payload.copyTo(std::as_writable_bytes(pull.values[floats.arena()].subspan(floats.offset(), count)));
  received_ += payload.size();
  pull.version = floats.version();
  pull.isDone = pull.covered() == slice.size() * pull.values.size();
  if (pull.isDone) server.version = pull.version;
}

void CenterClient::Impl::closed(Server& server, const std::string& why) {
  const std::lock_guard lock(mutex_);
  server.isLost = true;
  server.why = why;
  changed_.notify_all();
}

// ---- waiting

void CenterClient::Impl::requireWanted() const {
  if (!refusal_.empty()) throw UsageError(refusal_);
}

// Recovers lost servers meanwhile.
template <class Condition>
void CenterClient::Impl::wait(Condition&& condition) {
  std::unique_lock lock(mutex_);
  for (;;) {
    requireWanted();
    if (hasEntered_) dealWithWelcomes();
    if (hasEntered_ && std::exchange(isHaltAsked_, false)) halt(true);
    if (condition()) return;
    if (std::ranges::any_of(servers_, [](const auto& server) { return server->isLost; })) {
      recover(lock);
      continue;
    }
    changed_.wait(lock);
  }
}

void CenterClient::Impl::greet(Server& server, std::unique_lock<std::mutex>& lock) {
  server.welcome.reset();
  server.isLost = server.isGreeted = server.isWelcomeNew = server.isOpened = false;
  server.unconfirmed = 0;
  server.greetedIn = opening_;
  lock.unlock();
  server.link.reset();
  server.link = connector_->connect(server.index, server);
  wire::Envelope envelope;
  wire::Hello& hello = *envelope.mutable_hello();
  hello.set_protocol(kProtocol);
  hello.set_server(static_cast<std::uint32_t>(server.index));
  hello.set_servers(static_cast<std::uint32_t>(connector_->servers()));
  hello.set_token(token_);
  hello.set_name(options_.name);
  server.link->send(envelope);
  lock.lock();
}

void CenterClient::Impl::recover(std::unique_lock<std::mutex>& lock) {
  const Clock::time_point start = Clock::now();
  for (const auto& server : servers_) {
    if (!server->isLost) continue;
    std::chrono::milliseconds backOff{0};
    while (server->isLost) {
      requireWanted();
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
    if (server->index > 0) {
      goOnWith(*server);
      continue;
    }
    abandon();
    if (server->welcome->is_open()) {
      if (server->welcome->opening() != opening_) {
        opening_ = server->welcome->opening();
        for (const auto& other : servers_) other->version = 0;  // what they had is no more
      }
      sayEnter();
    } else {
      *orders_.emplace_back().mutable_welcome() = *server->welcome;
    }
  }
}

void CenterClient::Impl::askToReopen() {
  wire::Envelope reopen;
  reopen.mutable_reopen()->set_opening(opening_);
  say(reopen);
}

// One that was away is there again, with what it had, or without.
void CenterClient::Impl::goOnWith(Server& server) {
  const wire::Welcome& welcome = *server.welcome;
  // What it said before the run was opened again is no news: it is asked anew.
  if (!welcome.is_open() && server.greetedIn != opening_) {
    server.isLost = true;
    server.why = "it has no run";
    return;
  }
  const Step lost = server.version - welcome.version();
  if (!welcome.is_open() || (acceptance_ != Acceptance::AtOnce && lost > 0)) {
    return askToReopen();
  }
  if (lost > 0) {
    notices_.push_back(fmt::format("{} came back from its snapshot: {} updates of its parameters are lost",
                                   connector_->nameOf(server.index), lost));
  }
  server.version = welcome.version();
  if (work_ && !isAbandoned_) expectConfirmations(server);
  for (const Pushed& pushed : pushed_) send(server, pushed);
  if (server.pull && !server.pull->isDone) {
    server.pull->coverage.assign(server.pull->values.size(), {});
    server.link->send(server.pull->request);
  }
}

// ---- coming

CenterClient::Welcome CenterClient::Impl::join() {
  wait([&] {
    return std::ranges::all_of(servers_, [](const auto& server) { return server->welcome.has_value(); });
  });
  const std::lock_guard lock(mutex_);
  servers_.front()->isWelcomeNew = false;  // the others' are looked at when this worker has entered
  const wire::Welcome& welcome = *servers_.front()->welcome;
  opening_ = welcome.opening();
  return {.member = welcome.member(),
          .isOpen = welcome.is_open(),
          .config = welcome.config(),
          .done = welcome.done()};
}

void CenterClient::Impl::open(const CenterSetup& setup, const std::vector<Arena>& state) {
  // Where the run is opened again because one of them was away, it may still be.
  const std::uint64_t breaks = breaks_;
  wait([&] { return std::ranges::none_of(servers_, [](const auto& server) { return server->isLost; }); });
  if (breaks_ != breaks) {
    throw PeerError(fmt::format("{} was lost while the run was opened", connector_->nameOf(0)));
  }
  arenaSize_ = state.front().values.size();
  wire::Envelope envelope;
  *envelope.mutable_setup() = toWire(setup);
  opening_ = newToken();
  envelope.mutable_setup()->set_opening(opening_);
  for (const auto& server : servers_) {
    server->isOpened = false;
    server->version = setup.step;
    server->link->send(envelope);
    const ArenaRange slice = sliceOf(*server);
    for (const Arena& arena : state) {
      for (std::size_t at = slice.begin; at < slice.end; at += kFrameFloats) {
        wire::Envelope part;
        part.mutable_load()->set_arena(arena.name);
        part.mutable_load()->set_offset(at);
        server->link->send(part, arena.values.subspan(at, std::min(kFrameFloats, slice.end - at)));
      }
    }
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return !refusal_.empty() || std::ranges::all_of(servers_, [](const auto& server) {
      return server->isOpened || server->isLost;
    });
  });
  requireWanted();
  for (const auto& server : servers_) {
    if (server->index > 0) server->isWelcomeNew = false;
    if (server->isLost) {
      throw PeerError(fmt::format("{} was lost while the run was opened: {}",
                                  connector_->nameOf(server->index), server->why));
    }
  }
  wire::Envelope loaded;
  loaded.mutable_loaded();
  say(loaded);
}

void CenterClient::Impl::enter(const CenterSetup& setup, std::span<float> weights) {
  arenaSize_ = weights.size();
  weights_ = weights;
  acceptance_ = acceptanceOf(setup.rule);
  tree_.emplace(setup.grains);
  hasEntered_ = true;
  sayEnter();
}

void CenterClient::Impl::sayEnter() {
  wire::Envelope enter;
  enter.mutable_enter()->set_opening(opening_);
  say(enter);
}

// ---- working

CenterClient::Order CenterClient::Impl::next() {
  for (;;) {
    if (std::optional<Order> order = tryNext()) return *std::move(order);
  }
}

// Whether the weights that were asked for are there. Those after a step do not come before all of it is done: a part of it that
// another has left behind is taken first.
bool CenterClient::Impl::mayTake(const wire::Envelope& order) const {
  return hasPulled() || (acceptance_ == Acceptance::WhenComplete && order.has_assign() && work_ &&
                         order.assign().version() <= work_->step);
}

// Nothing where the order was taken back before its weights were there.
std::optional<CenterClient::Order> CenterClient::Impl::tryNext() {
  wire::Envelope head;
  std::uint64_t breaks = 0;
  wait([&] {
    return !orders_.empty() && mayTake(orders_.front()) &&
           std::ranges::all_of(servers_, [&](const auto& server) { return isConfirmed(*server); });
  });
  {
    const std::lock_guard lock(mutex_);
    head = orders_.front();
    orders_.pop_front();
    if (!hasPulled()) {
      for (const auto& server : servers_) server->pull.reset();
    }
    work_.reset();
    pushed_.clear();
    isAbandoned_ = false;
    breaks = breaks_;
  }
  if (head.has_over()) return Order{.kind = Order::Kind::Over, .work = {}, .state = {}};
  if (head.has_welcome()) return Order{.kind = Order::Kind::Open, .work = {}, .state = {}};
  const auto pullIfOlder = [&](Step version, const auto& words) {
    std::vector<Server*> asked;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& server : servers_) {
        const bool isFresh = server->pull && server->pull->isDone && server->version >= version;
        if (!isFresh) asked.push_back(server.get());
      }
    }
    for (Server* server : asked) {
      wire::Envelope request;
      if (words.has_commit_step()) {
        request.mutable_pull()->set_commit_step(words.commit_step());
        *request.mutable_pull()->mutable_commit() = words.commit();
      }
      ask(*server, weightsAlone(), version, std::move(request));
    }
    wait([&] { return hasPulled(); });
    const std::lock_guard lock(mutex_);
    for (const auto& server : servers_) server->pull.reset();
  };
  if (head.has_end()) {
    pullIfOlder(0, head.end());
    const std::lock_guard lock(mutex_);
    if (breaks_ != breaks) return std::nullopt;
    return Order{.kind = Order::Kind::End,
                 .work = {},
                 .isInterrupted = head.end().is_interrupted(),
                 .state = stateOf(head.end().state())};
  }
  const wire::Assign& assign = head.assign();
  pullIfOlder(assign.version(), assign);
  const std::lock_guard lock(mutex_);
  if (breaks_ != breaks) return std::nullopt;
  // A server that has made the step's update already, with what a dead worker had sent, has its weights no more.
  const bool isAhead =
      std::ranges::any_of(servers_, [&](const auto& server) { return server->version != assign.version(); });
  if (acceptance_ == Acceptance::WhenComplete && isAhead) {
    askToReopen();
    return std::nullopt;
  }
  work_ = fromWire(assign.work());
  for (const auto& server : servers_) expectConfirmations(*server);
  Order order{.kind = Order::Kind::Compute, .work = *work_, .state = stateOf(assign.state())};
  if (!orders_.empty() && orders_.front().has_assign())
    order.following = fromWire(orders_.front().assign().work());
  return order;
}

void CenterClient::Impl::ask(Server& server, const std::vector<ArenaToFill>& arenas, Step version,
                             wire::Envelope request) {
  Pull pull;
  wire::Pull& words = *request.mutable_pull();
  words.set_version(version);
  for (const ArenaToFill& arena : arenas) {
    words.add_arenas(arena.name);
    pull.values.push_back(arena.values);
    pull.coverage.emplace_back();
  }
  const std::lock_guard lock(mutex_);
  pull.ticket = ++lastTicket_;
  words.set_ticket(pull.ticket);
  pull.request = std::move(request);
  server.pull = std::move(pull);
  if (!server.isLost) server.link->send(server.pull->request);
}

void CenterClient::Impl::send(Server& server, const Pushed& pushed) {
  const ArenaRange slice = sliceOf(server);
  const std::size_t begin = std::max(slice.begin, pushed.range.begin);
  const std::size_t end = std::min(slice.end, pushed.range.end);
  for (std::size_t at = begin; at < end; at += kFrameFloats) {
    wire::Envelope envelope;
    wire::Push& push = *envelope.mutable_push();
    push.set_step(work_->step);
    push.set_node(pushed.node);
    push.set_basis(server.version);
    push.set_offset(at);
    push.set_opening(opening_);
    const std::size_t count = std::min(kFrameFloats, end - at);
    server.link->send(envelope, pushed.sums.subspan(at, count));
    sent_ += count * sizeof(float);
  }
}

void CenterClient::Impl::push(int node, const ArenaRange& range, std::span<const float> sums) {
  const std::lock_guard lock(mutex_);
  if (isAbandoned_) return;
  pushed_.push_back({node, range, sums});
  for (const auto& server : servers_) {
    if (!server->isLost) send(*server, pushed_.back());
  }
}

void CenterClient::Impl::finish(std::span<const LossSum> losses) {
  wire::Envelope envelope;
  wire::Finished& finished = *envelope.mutable_finished();
  {
    const std::lock_guard lock(mutex_);
    if (isAbandoned_) return;
    finished.mutable_work()->set_step(work_->step);
    finished.mutable_work()->set_first(work_->grains.first);
    finished.mutable_work()->set_last(work_->grains.last);
  }
  for (const LossSum& loss : losses) *finished.add_losses() = toWire(loss);
  // Where the weights to come do not depend on what others decide, they are asked for at once.
  if (acceptance_ != Acceptance::OnCommit) {
    const Step version = acceptance_ == Acceptance::WhenComplete ? work_->step + 1 : 0;
    for (const auto& server : servers_) ask(*server, weightsAlone(), version, {});
  }
  // The first server has what was sent to it before this.
  wait([&] {
    return std::all_of(servers_.begin() + 1, servers_.end(),
                       [&](const auto& server) { return isConfirmed(*server); });
  });
  const std::lock_guard lock(mutex_);
  if (!isAbandoned_) say(envelope);
}

std::optional<Step> CenterClient::Impl::fetch(const std::vector<ArenaToFill>& arenas) {
  std::uint64_t breaks = 0;
  {
    const std::lock_guard lock(mutex_);
    if (isAbandoned_) return std::nullopt;
    breaks = breaks_;
  }
  for (const auto& server : servers_) ask(*server, arenas, 0, {});
  wait([&] { return hasPulled(); });
  const std::lock_guard lock(mutex_);
  if (breaks_ != breaks) return std::nullopt;
  Step version = std::numeric_limits<Step>::max();
  for (const auto& server : servers_) {
    version = std::min(version, server->pull->version);
    server->pull.reset();
  }
  return version;
}

std::vector<std::string> CenterClient::Impl::takeNotices() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

// ---- the public face

CenterClient::CenterClient(std::shared_ptr<Connector> servers, const Options& options)
    : impl_(std::make_unique<Impl>(std::move(servers), options)) {}
CenterClient::~CenterClient() = default;

CenterClient::Welcome CenterClient::join() {
  return impl_->join();
}
void CenterClient::open(const CenterSetup& setup, const std::vector<Arena>& state) {
  impl_->open(setup, state);
}
void CenterClient::enter(const CenterSetup& setup, std::span<float> weights) {
  impl_->enter(setup, weights);
}
CenterClient::Order CenterClient::next() {
  return impl_->next();
}
void CenterClient::push(int node, const ArenaRange& range, std::span<const float> sums) {
  impl_->push(node, range, sums);
}
void CenterClient::finish(std::span<const LossSum> losses) {
  impl_->finish(losses);
}
std::optional<Step> CenterClient::fetch(const std::vector<ArenaToFill>& arenas) {
  return impl_->fetch(arenas);
}
std::vector<std::string> CenterClient::takeNotices() {
  return impl_->takeNotices();
}
void CenterClient::halt() {
  impl_->halt(false);
}
void CenterClient::settle() {
  wire::Envelope envelope;
  envelope.mutable_settled();
  impl_->sayToAll(envelope);
}
CenterClient::Traffic CenterClient::traffic() const {
  return impl_->traffic();
}

}  // namespace cohort
