#include "center/client.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "center/client_impl.h"

namespace cohort {
namespace {

CenterClient::RunState stateOf(const wire::State& state) {
  return {.isChief = state.is_chief(), .done = state.done(), .loss = fromWire(state.loss())};
}

}  // namespace

CenterClient::Impl::Impl(std::shared_ptr<Connector> servers, const Options& options)
    : connector_(std::move(servers)), options_(options), token_(newToken()) {
  for (int i = 0; i < connector_->servers(); ++i) servers_.push_back(std::make_unique<Server>(*this, i));
}

CenterClient::Impl::~Impl() {
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

// ---- coming

CenterClient::Welcome CenterClient::Impl::join() {
  wait([&] { return std::ranges::all_of(servers_, [](const auto& s) { return s->welcome.has_value(); }); },
       Leaving::Allowed);
  const std::lock_guard lock(mutex_);
  const Server& leader = *servers_.front();
  const wire::Welcome& welcome = *leader.welcome;
  servers_.front()->isWelcomeNew = false;  // the others' are looked at when this worker has entered
  servers_.front()->life = welcome.life();
  opening_ = welcome.opening();
  invitedBy_ = leader.greetings;
  return {.member = welcome.member(),
          .isOpen = welcome.is_open(),
          .config = welcome.config(),
          .done = welcome.done()};
}

bool CenterClient::Impl::open(const CenterSetup& setup, const std::vector<Arena>& state) {
  Server& leader = *servers_.front();
  const std::uint64_t invitation = invitedBy_;
  const auto isInvited = [&] { return leader.greetings == invitation; };
  for (;;) {
    wait([&] { return !isInvited() || !isAnyLost(); });
    {
      const std::lock_guard lock(mutex_);
      if (!isInvited()) return false;
    }
    if (sendOpening(setup, state)) break;
  }
  wire::Envelope loaded;
  loaded.mutable_loaded();
  say(loaded);
  return true;
}

// False where a server was lost meanwhile.
bool CenterClient::Impl::sendOpening(const CenterSetup& setup, const std::vector<Arena>& state) {
  arenaSize_ = state.front().values.size();
  wire::Envelope envelope;
  *envelope.mutable_setup() = toWire(setup);
  opening_ = newToken();
  envelope.mutable_setup()->set_opening(opening_);
  for (const auto& server : servers_) {
    {
      const std::lock_guard lock(mutex_);
      server->isOpened = false;
      server->version = setup.step;
      server->greetedIn = opening_;
    }
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
    return !refusal_.empty() || isAnyLost() ||
           std::ranges::all_of(servers_, [](const auto& server) { return server->isOpened; });
  });
  requireWanted();
  if (isAnyLost()) return false;
  for (const auto& server : servers_) {
    server->isWelcomeNew = false;
    if (server->welcome) server->life = server->welcome->life();
  }
  return true;
}

void CenterClient::Impl::enter(const CenterSetup& setup, std::span<float> weights) {
  arenaSize_ = weights.size();
  weights_ = weights;
  config_ = setup.config;
  acceptance_ = acceptanceOf(setup.rule);
  hasOwnWeights_ = setup.rule.hasOwnWeights;
  hasBegun_ = false;
  tree_.emplace(setup.grains);
  hasEntered_ = true;
  sayEnter();
}

void CenterClient::Impl::sayEnter() {
  wire::Envelope enter;
  enter.mutable_enter()->set_opening(opening_);
  say(enter);
}

// ---- orders

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
  wait(
      [&] {
        return !orders_.empty() && mayTake(orders_.front()) &&
               std::ranges::all_of(servers_, [&](const auto& server) { return isConfirmed(*server); });
      },
      Leaving::Allowed);
  wire::Envelope head;
  std::uint64_t breaks = 0;
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
    refusals_ = 0;
    breaks = breaks_;
  }
  if (head.has_over()) {
    sayOverToOthers();
    return Order{.kind = Order::Kind::Over, .work = {}, .state = {}};
  }
  if (head.has_welcome()) return Order{.kind = Order::Kind::Open, .work = {}, .state = {}};
  if (head.has_assign()) return takeWork(head.assign(), breaks);
  pullIfOlder(0, head.end());
  const std::lock_guard lock(mutex_);
  if (breaks_ != breaks) return std::nullopt;
  return Order{.kind = Order::Kind::End,
               .work = {},
               .isInterrupted = head.end().is_interrupted(),
               .state = stateOf(head.end().state())};
}

std::optional<CenterClient::Order> CenterClient::Impl::takeWork(const wire::Assign& assign,
                                                                std::uint64_t breaks) {
  if (!hasOwnWeights_ || !hasBegun_) pullIfOlder(assign.version(), assign);
  const std::lock_guard lock(mutex_);
  if (breaks_ != breaks) return std::nullopt;
  const bool isBeginning = hasOwnWeights_ && !hasBegun_;
  hasBegun_ = true;
  // A server that has made the step's update already, with what a dead worker had sent, has its weights no more.
  const bool isAhead =
      std::ranges::any_of(servers_, [&](const auto& server) { return server->version != assign.version(); });
  if (acceptance_ == Acceptance::WhenComplete && isAhead) {
    askToReopen();
    return std::nullopt;
  }
  work_ = fromWire(assign.work());
  for (const auto& server : servers_) expectConfirmations(*server);
  if (isBeginning) beginOwn();
  if (hasOwnWeights_) own_.steps.push_back(work_->step);
  Order order{.kind = Order::Kind::Compute,
              .work = *work_,
              .isBeginning = isBeginning,
              .state = stateOf(assign.state())};
  if (!orders_.empty() && orders_.front().has_assign())
    order.following = fromWire(orders_.front().assign().work());
  return order;
}

// The weights, where those that are here are older; `words` say which gradients make them.
template <class Words>
void CenterClient::Impl::pullIfOlder(Step version, const Words& words) {
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
}

// They have no other way to know.
void CenterClient::Impl::sayOverToOthers() {
  wire::Envelope envelope;
  envelope.mutable_settled()->set_opening(opening_);
  for (const auto& server : servers_) {
    if (server->index > 0) server->link->send(envelope);
  }
}

// ---- working

void CenterClient::Impl::ask(Server& server, const std::vector<ArenaToFill>& arenas, Step version,
                             wire::Envelope request) {
  Pull pull;
  wire::Pull& words = *request.mutable_pull();
  words.set_version(version);
  for (const ArenaToFill& arena : arenas) {
    words.add_arenas(arena.name);
    pull.arenas.push_back(arena.values);
  }
  pull.forget();
  const std::lock_guard lock(mutex_);
  words.set_ticket(++lastTicket_);
  words.set_opening(opening_);
  pull.request = std::move(request);
  server.pull = std::move(pull);
  if (!server.isLost) server.link->send(server.pull->request);
}

// The version that a gradient is of, as the server that is there now counts.
Step CenterClient::Impl::basisOf(const Server& server) const {
  const ServerVersion& seen = computedWith_[static_cast<std::size_t>(server.index)];
  return seen.life == server.life ? seen.version : std::min(seen.version, server.version);
}

wire::Envelope CenterClient::Impl::pushOf(const Server& server, const Pushed& pushed) const {
  wire::Envelope envelope;
  wire::Push& push = *envelope.mutable_push();
  push.set_step(work_->step);
  push.set_node(pushed.node);
  push.set_basis(basisOf(server));
  if (acceptance_ == Acceptance::AtOnce) {
    for (const ServerVersion& version : computedWith_) *push.add_seen() = toWire(version);
  }
  if (hasOwnWeights_) *push.mutable_exchange() = exchange_;
  push.set_opening(opening_);
  return envelope;
}

void CenterClient::Impl::send(Server& server, const Pushed& pushed) {
  wire::Envelope envelope = pushOf(server, pushed);
  if (pushed.sums.empty()) return server.link->send(envelope);  // a visit without a letter
  const ArenaRange slice = sliceOf(server);
  const std::size_t begin = std::max(slice.begin, pushed.range.begin);
  const std::size_t end = std::min(slice.end, pushed.range.end);
  for (std::size_t at = begin; at < end; at += kFrameFloats) {
    envelope.mutable_push()->set_offset(at);
    server.link->send(envelope, pushed.sums.subspan(at, std::min(kFrameFloats, end - at)), pushed.keep);
  }
}

void CenterClient::Impl::push(int node, const ArenaRange& range, std::span<const float> sums,
                              const std::shared_ptr<const void>& keep) {
  const std::lock_guard lock(mutex_);
  if (isAbandoned_) return;
  if (pushed_.empty()) {
    // Before the next weights take their place.
    computedWith_ = own_.found.empty() ? weightsHere() : own_.found;
    if (hasOwnWeights_) exchangeOwn();
  }
  pushed_.push_back({node, range, sums, keep});
  for (const auto& server : servers_) {
    if (hasOwnWeights_) expectConfirmations(*server);
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
    finished.set_opening(opening_);
  }
  for (const LossSum& loss : losses) *finished.add_losses() = toWire(loss);
  // Where the weights to come do not depend on what others decide, they are asked for at once.
  if (acceptance_ != Acceptance::OnCommit && !hasOwnWeights_) {
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

std::optional<CenterClient::Fetched> CenterClient::Impl::fetch(const std::vector<ArenaToFill>& arenas) {
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
  Fetched fetched{.version = std::numeric_limits<Step>::max(), .moment = {.opening = opening_}};
  for (const auto& server : servers_) {
    fetched.version = std::min(fetched.version, server->pull->version);
    fetched.moment.servers.push_back(server->weights);
    server->pull.reset();
  }
  return fetched;
}

std::vector<std::string> CenterClient::Impl::takeNotices() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

void CenterClient::Impl::halt(bool isInterrupted) {
  wire::Envelope envelope;
  envelope.mutable_halt()->set_is_interrupted(isInterrupted);
  say(envelope);
}

void CenterClient::Impl::settle() {
  wire::Envelope envelope;
  envelope.mutable_settled()->set_opening(opening_);
  say(envelope);
}

// ---- the public face

CenterClient::CenterClient(std::shared_ptr<Connector> servers, const Options& options)
    : impl_(std::make_unique<Impl>(std::move(servers), options)) {}
CenterClient::~CenterClient() = default;

CenterClient::Welcome CenterClient::join() {
  return impl_->join();
}
bool CenterClient::open(const CenterSetup& setup, const std::vector<Arena>& state) {
  return impl_->open(setup, state);
}
void CenterClient::enter(const CenterSetup& setup, std::span<float> weights) {
  impl_->enter(setup, weights);
}
CenterClient::Order CenterClient::next() {
  return impl_->next();
}
void CenterClient::push(int node, const ArenaRange& range, std::span<const float> sums,
                        const std::shared_ptr<const void>& keep) {
  impl_->push(node, range, sums, keep);
}
std::uint64_t CenterClient::ownWeights() const {
  return impl_->ownWeights();
}
std::optional<std::vector<CenterClient::Mail>> CenterClient::visit(std::span<const float> letter,
                                                                   const std::shared_ptr<const void>& keep,
                                                                   std::span<float> mail) {
  return impl_->visit(letter, keep, mail);
}
void CenterClient::finish(std::span<const LossSum> losses) {
  impl_->finish(losses);
}
std::optional<CenterClient::Fetched> CenterClient::fetch(const std::vector<ArenaToFill>& arenas) {
  return impl_->fetch(arenas);
}
std::vector<std::string> CenterClient::takeNotices() {
  return impl_->takeNotices();
}
void CenterClient::halt() {
  impl_->halt(false);
}
void CenterClient::settle() {
  impl_->settle();
}

}  // namespace cohort
