// One server of a center: what it does with each message. The first server also leads: it knows the members, gives out work by the
// run's policy and names the chief, the member that evaluates and keeps checkpoints.
//
// Everything that comes from a worker is untrusted: what makes no sense costs its sender the connection, and changes nothing.
// Used by one thread; no clock, no socket. Private to center.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "center/coverage.h"
#include "center/journal_writer.h"
#include "center/leader.h"
#include "center/link.h"
#include "center/setup.h"
#include "center/shard_store.h"
#include "center/snapshot.h"

namespace cohort {

using LinkId = std::uint64_t;

class Center {
 public:
  struct Place {
    int index = 0;
    int count = 1;
    std::uint64_t life = 1;  // which process it is: a random number
  };
  // `journal` (which may be nullptr) is told of every update, and outlives this.
  explicit Center(const Place& place, JournalWriter* journal = nullptr) : place_(place), journal_(journal) {}

  // The link outlives its closing.
  void opened(LinkId id, Link& link);
  // False: the sender was refused, and its link is to be closed.
  bool received(LinkId id, const CenterMessage& message);
  void closed(LinkId id);
  // The run shall end when what is begun is finished: as interrupted, or as if its target was reached.
  void halt(bool isInterrupted);

  // The run is over, with its last duties.
  bool isOver() const { return leader_ ? leader_->isOver() : isOver_; }
  bool hasMembers() const;
  // Of the run that is set up (see CenterSetup); 0: there is none.
  std::uint64_t opening() const { return setup_ ? setup_->opening : 0; }

  // Whether there is something that a server can go on with alone after its death. Where all servers step together, it would be
  // older than what the others have: there, the run's checkpoint counts.
  bool hasSnapshot() const;
  Snapshot snapshot();
  // UsageError where it is another server's.
  void restore(Snapshot snapshot);

 private:
  // A gradient on its way.
  struct Assembly {
    Step basis = 0;
    FloatBuffer floats{};
    Coverage coverage{};
  };
  struct WaitingPull {
    std::vector<std::string> arenas;
    Step version = 0;
    std::uint64_t ticket = 0;
  };
  struct Peer {
    Link* link = nullptr;
    bool hasGreeted = false;
    bool isWelcome = false;
    std::uint64_t token = 0;
    std::string name;
    MemberId member = -1;
    bool isCorrected = false;                             // told that this server is in another opening
    std::uint64_t ownWeights = 0;                         // which it exchanges
    std::map<std::pair<Step, int>, Assembly> assemblies;  // by step and node
    std::optional<WaitingPull> pull;                      // the last; it takes the place of one before
  };
  struct Loading {
    LinkId by = 0;
    std::map<std::string, Coverage, std::less<>> arenas;
  };

  bool leads() const { return place_.index == 0; }
  // A word that was on its way when the run was opened again.
  bool isOfAnother(std::uint64_t opening) const { return opening != 0 && opening != setup_->opening; }
  void handle(LinkId id, Peer& peer, const CenterMessage& message);
  void on(LinkId id, Peer& peer, const wire::Hello& hello);
  void on(LinkId id, Peer& peer, const wire::Setup& message);
  void on(LinkId id, Peer& peer, const wire::Load& load, const Payload& payload);
  void on(LinkId id, Peer& peer, const wire::Loaded&);
  void on(Peer& peer, const wire::Enter& enter);
  void on(Peer& peer, const wire::Push& push, const Payload& payload);
  void on(Peer& peer, const wire::Pull& pull);
  void on(Peer& peer, const wire::Finished& finished);
  void on(const Peer& peer, const wire::Reopen& words);
  void on(const Peer& peer, const wire::Settled& settled);
  void tellStatus(const Peer& asker) const;

  void setUp(CenterSetup setup);
  void lead(const Progress& from, std::int64_t dropped);
  void say(MemberId member, const wire::Envelope& words);
  void welcome(LinkId id, Peer& peer);
  void fillWelcome(wire::Welcome& words, const Peer& peer) const;
  void welcomeWaiting();
  // Where one comes with what it was told in an earlier opening: the newest checkpoint counts, whoever was first.
  bool isBehind(const wire::Hello& hello) const;
  void reopen(MemberId opener);
  void loseOpener();
  void countLost(const wire::Hello& hello);
  bool isMisled(Peer& peer, std::uint64_t opening);
  // Otherwise its words are of an earlier opening, and nobody needs them.
  bool isMember(const Peer& peer) const { return leader_ && leader_->find(peer.member) != nullptr; }
  void leave(const Peer& peer);
  void answerPulls();
  void answer(Peer& peer, const WaitingPull& pull);
  void answerMail(const Peer& peer, const WaitingPull& pull);
  void send(const Peer& peer, wire::Envelope& words, const std::shared_ptr<const FloatBuffer>& values);
  std::span<float> arenaCalled(std::string_view name);
  // Of the parameters that are now in the store: of a snapshot of the server's earlier life, or what the run is opened with.
  void beginJournal(std::optional<std::uint64_t> parent);
  void journalPush(const Peer& peer, const wire::Push& push, Step basis);
  void journalLeave(const Peer& peer);
  void requireExchange(Peer& peer, const wire::Push& push) const;
  bool hasExchanged(const wire::Push& push) const;
  // A whole gradient, exchange or visit has come: it is taken, and confirmed.
  void takeWhole(Peer& peer, const wire::Push& push, Step basis, FloatBuffer gradient);
  // False where it came before.
  bool take(const Peer& peer, const wire::Push& push, Step basis, FloatBuffer gradient);
  bool commit(Step step, std::vector<GrainRange> grains);
  // The stretch that a payload at an offset of the arena fills.
  ArenaRange rangeOf(std::uint64_t offset, const Payload& payload) const;

  Place place_;
  JournalWriter* journal_;
  // Of the update that is being journaled.
  std::vector<ServerVersion> seen_;
  std::vector<ServerVersion> begunWith_;
  std::map<LinkId, Peer> peers_;

  // Of a run that is open, or being opened.
  std::optional<CenterSetup> setup_;
  ParameterLayout layout_;
  std::unique_ptr<ShardStore> store_;
  std::optional<Loading> loading_;
  bool isOpen_ = false;
  std::map<std::uint64_t, std::int64_t> exchanged_;  // by whose weights, the last that was applied

  // On the first server.
  std::optional<LinkId> opener_;
  MemberId nextMember_ = 0;
  std::optional<bool> halt_;      // asked for: whether as interrupted
  std::optional<Leader> leader_;  // while the run is open

  bool isOver_ = false;           // elsewhere
  std::optional<Step> restored_;  // the version that its snapshot had
  std::int64_t lost_ = 0;         // updates that no snapshot had, in this life
  std::int64_t lostBefore_ = 0;
  std::int64_t duplicates_ = 0;
  std::uint64_t bytesReceived_ = 0;
  std::uint64_t bytesSent_ = 0;
};

}  // namespace cohort
