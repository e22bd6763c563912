// How workers come to a server, and how a run is opened there, and opened again.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "center/center.h"
#include "center/protocol.h"
#include "center/setup_wire.h"

namespace cohort {
namespace {

constexpr std::size_t kMostPeers = 10'000;

}  // namespace

void Center::on(LinkId id, Peer& peer, const wire::Hello& hello) {
  require(!peer.hasGreeted, "it has greeted before");
  require(hello.protocol() == kProtocol,
          "this server speaks another version of the protocol; use the same version of cohort everywhere");
  if (hello.server() != static_cast<std::uint32_t>(place_.index) ||
      hello.servers() != static_cast<std::uint32_t>(place_.count)) {
    throw UsageError(
        fmt::format("this is server {} of {}, not server {} of {}; name all servers in their order",
                    place_.index, place_.count, hello.server(), hello.servers()));
  }
  require(peers_.size() <= kMostPeers, "there are too many workers");
  // A worker that comes again: its broken connection may not be noticed yet.
  std::vector<LinkId> old;
  for (const auto& [other, known] : peers_) {
    if (other != id && known.hasGreeted && known.token == hello.token()) old.push_back(other);
  }
  for (const LinkId other : old) closed(other);
  peer.hasGreeted = true;
  peer.token = hello.token();
  peer.name = hello.name().substr(0, 200);
  peer.member = nextMember_++;
  countLost(hello);
  if (isBehind(hello)) reopen(peer.member);
  if (isOpen_ || !leads()) return welcome(id, peer);
  wire::Envelope patience;
  patience.mutable_patience();
  peer.link->send(patience);
  welcomeWaiting();
}

void Center::countLost(const wire::Hello& hello) {
  if (!restored_ || hello.life() == place_.life || hello.opening() != setup_->opening) return;
  lost_ = std::max(lost_, hello.version() - *restored_);
}

bool Center::isBehind(const wire::Hello& hello) const {
  return leader_ && !leader_->isOver() && hello.opening() != 0 && hello.opening() != setup_->opening &&
         hello.checkpoint() > leader_->progress().done;
}

void Center::fillWelcome(wire::Welcome& words, const Peer& peer) const {
  words.set_member(peer.member);
  words.set_is_open(isOpen_);
  words.set_life(place_.life);
  if (isOpen_) {
    words.set_config(setup_->config);
    words.set_opening(setup_->opening);
    words.set_version(store_->version());
    if (leader_) words.set_done(leader_->progress().done);
  }
}

void Center::welcome(LinkId id, Peer& peer) {
  peer.isWelcome = true;
  wire::Envelope answer;
  fillWelcome(*answer.mutable_welcome(), peer);
  if (!isOpen_ && leads()) opener_ = id;
  peer.link->send(answer);
}

// One of them opens the run; then all are welcome.
void Center::welcomeWaiting() {
  if (!leads()) return;
  for (auto& [id, peer] : peers_) {
    if (!peer.hasGreeted || peer.isWelcome) continue;
    if (!isOpen_ && opener_) return;
    welcome(id, peer);
  }
}

// The chief opens it again, where there is one: it has the checkpoints.
void Center::on(const Peer& peer, const wire::Reopen& words) {
  require(leads(), "only the first server opens a run again");
  if (!isMember(peer) || leader_->isOver() || setup_->opening != words.opening()) return;
  reopen(leader_->chief());
  welcomeWaiting();
}

void Center::reopen(MemberId opener) {
  isOpen_ = false;
  leader_.reset();
  store_.reset();
  restored_.reset();
  for (auto& [id, peer] : peers_) {
    peer.isWelcome = false;
    peer.assemblies.clear();
    peer.pull.reset();
  }
  for (auto& [id, peer] : peers_) {
    if (peer.hasGreeted && peer.member == opener) welcome(id, peer);
  }
}

void Center::on(const Peer& peer, const wire::Settled& settled) {
  if (!isOpen_ || isOfAnother(settled.opening())) return;
  if (leader_) return leader_->settle(peer.member);
  isOver_ = true;
}

void Center::on(LinkId id, Peer&, const wire::Setup& message) {
  require(leads() ? opener_ == id && !isOpen_ : !isOpen_ || setup_->opening != message.opening(),
          "the run is set up already");
  setUp(cohort::fromWire(message));
  store_->restore(setup_->step, StepSet(setup_->step));
  loading_ = Loading{.by = id, .arenas = {}};
}

void Center::setUp(CenterSetup setup) {
  ParameterLayout layout(setup.parameters);
  if (layout.size() < static_cast<std::size_t>(place_.count)) {
    throw UsageError(
        fmt::format("{} servers cannot share {} floats; use fewer --servers", place_.count, layout.size()));
  }
  auto store =
      std::make_unique<ShardStore>(layout, setup, sliceOfServer(layout.size(), place_.index, place_.count));
  isOpen_ = false;
  for (auto& [other, peer] : peers_) {
    peer.assemblies.clear();
    peer.pull.reset();
    peer.isCorrected = false;
    peer.ownWeights = 0;
  }
  exchanged_.clear();
  restored_.reset();
  layout_ = std::move(layout);
  store_ = std::move(store);
  setup_ = std::move(setup);
}

std::span<float> Center::arenaCalled(std::string_view name) {
  if (name == kWeights) return store_->weights();
  for (const Shard::Slot& slot : store_->slots()) {
    if (slot.name == name) return slot.values;
  }
  throw Nonsense("the run has no such slot");
}

void Center::on(LinkId id, Peer& peer, const wire::Load& load, const Payload& payload) {
  require(loading_ && loading_->by == id, "nothing is to be loaded");
  const ArenaRange range = rangeOf(load.offset(), payload);
  const std::span<float> arena = arenaCalled(load.arena());
  require(loading_->arenas[load.arena()].add(range), "these floats came before");
  payload.copyTo(std::as_writable_bytes(arena.subspan(range.begin - store_->slice().begin, range.size())));
  const std::size_t all = store_->slice().size() * (1 + store_->slots().size());
  std::size_t came = 0;
  for (const auto& [name, coverage] : loading_->arenas) came += coverage.covered();
  if (came < all) return;
  loading_.reset();
  beginJournal(std::nullopt);
  isOpen_ = !leads();  // the leader waits for the others
  wire::Envelope answer;
  answer.mutable_opened();
  peer.link->send(answer);
}

void Center::on(LinkId id, Peer&, const wire::Loaded&) {
  require(leads() && opener_ == id && !isOpen_ && store_ && !loading_, "nothing was loaded");
  lead({.done = setup_->step, .next = setup_->step, .open = {}}, 0);
  opener_.reset();
  welcomeWaiting();
}

void Center::lead(const Progress& from, std::int64_t dropped) {
  isOpen_ = true;
  leader_.emplace(
      *setup_, from, dropped,
      Leader::Outlets{.say = [this](MemberId member, const wire::Envelope& words) { say(member, words); },
                      .hasCome =
                          [this](const Work& work) {
                            // With weights of one's own, not every step ends in an exchange.
                            return setup_->rule.hasOwnWeights || store_->hasCome(work.step, work.grains);
                          },
                      .commit =
                          [this](const Commit& commit) {
                            COHORT_CHECK(this->commit(commit.step, commit.grains),
                                         "what is finished has come");
                            answerPulls();
                          }});
  if (halt_) leader_->halt(*halt_);
}

void Center::say(MemberId member, const wire::Envelope& words) {
  for (const auto& [id, peer] : peers_) {
    if (peer.hasGreeted && peer.member == member) return peer.link->send(words);
  }
}

void Center::on(Peer& peer, const wire::Enter& enter) {
  if (!isOpen_ || isOfAnother(enter.opening())) return;
  require(leads(), "a worker enters once, at the first server");
  leader_->enter(peer.member);
}

}  // namespace cohort
