// What a worker knows of its servers, and how it keeps in touch with them. Private to center.
//
// `client_contact.cpp` has what is heard, lost and found again; `client.cpp` the worker's own doing.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "center/client.h"
#include "center/link.h"
#include "center/protocol.h"
#include "center/pull.h"
#include "center/setup_wire.h"

namespace cohort {

class CenterClient::Impl {
 public:
  Impl(std::shared_ptr<Connector> servers, const Options& options);
  ~Impl();

  Welcome join();
  bool open(const CenterSetup& setup, const std::vector<Arena>& state);
  void enter(const CenterSetup& setup, std::span<float> weights);
  Order next();
  void push(int node, const ArenaRange& range, std::span<const float> sums,
            const std::shared_ptr<const void>& keep);
  std::uint64_t ownWeights() const { return own_.number; }
  std::optional<std::vector<Mail>> visit(std::span<const float> letter,
                                         const std::shared_ptr<const void>& keep, std::span<float> mail);
  void finish(std::span<const LossSum> losses);
  std::optional<Fetched> fetch(const std::vector<ArenaToFill>& arenas);
  std::vector<std::string> takeNotices();
  void halt(bool isInterrupted);
  void settle();

 private:
  struct Server : LinkListener {
    Server(Impl& owner, int number) : impl(owner), index(number) {}
    void received(CenterMessage message) override { impl.received(*this, message); }
    void closed(const std::string& reason) override { impl.closed(*this, reason); }

    Impl& impl;
    int index;
    std::unique_ptr<Link> link;
    // Under the mutex.
    bool isLost = true;
    std::string why;
    bool isGreeted = false;
    std::uint64_t greetings = 0;  // how often this worker has greeted it
    std::uint64_t greetedIn = 0;  // which opening of the run was known then
    std::optional<wire::Welcome> welcome;
    bool isWelcomeNew = false;  // and not dealt with
    bool isOpened = false;
    std::uint64_t life = 0;  // of the process that the weights came from
    Step version = 0;        // of the weights that this worker has
    ServerVersion weights;   // the same, in the life that they came from, which may be over
    int unconfirmed = 0;     // nodes of the present work whose gradient it has not confirmed
    std::optional<Pull> pull;
  };

  // A part of a gradient of the present work.
  struct Pushed {
    int node = 0;
    ArenaRange range;
    std::span<const float> sums;
    std::shared_ptr<const void> keep;
  };

  // Whether it may be asked to leave meanwhile: not in the midst of its own work, while all servers are there.
  enum class Leaving { No, Allowed };

  // What is heard, by threads of the transport.
  void received(Server& server, const CenterMessage& message);
  void refused(Server& server, const wire::Refused& refused);
  void closed(Server& server, const std::string& why);

  // Recovers lost servers meanwhile.
  template <class Condition>
  void wait(Condition&& condition, Leaving leaving = Leaving::No);
  void waitForNews(std::unique_lock<std::mutex>& lock, Leaving leaving);
  int awaitedServer() const;
  void recoverLost(std::unique_lock<std::mutex>& lock);
  void greet(Server& server, std::unique_lock<std::mutex>& lock);
  bool isAnyLost() const;
  void dealWithWelcomes();
  void dealWithLeader(const Server& leader);
  void goOnWith(Server& server);
  void abandon();
  void askToReopen();
  void noteLoss(const Server& server, Step lost);
  void requireWanted() const;

  bool mayTake(const wire::Envelope& order) const;
  std::optional<Order> tryNext();
  std::optional<Order> takeWork(const wire::Assign& assign, std::uint64_t breaks);
  template <class Words>
  void pullIfOlder(Step version, const Words& words);
  bool sendOpening(const CenterSetup& setup, const std::vector<Arena>& state);
  void sayEnter();
  void sayOverToOthers();
  void say(const wire::Envelope& envelope) { servers_.front()->link->send(envelope); }
  static std::uint64_t newToken();
  std::vector<ServerVersion> weightsHere() const;
  void beginOwn();
  void exchangeOwn();
  Step basisOf(const Server& server) const;
  void send(Server& server, const Pushed& pushed);
  wire::Envelope pushOf(const Server& server, const Pushed& pushed) const;
  void ask(Server& server, const std::vector<ArenaToFill>& arenas, Step version, wire::Envelope request);
  std::vector<ArenaToFill> weightsAlone() const { return {{std::string(kWeights), weights_}}; }
  ArenaRange sliceOf(const Server& server) const {
    return sliceOfServer(arenaSize_, server.index, connector_->servers());
  }
  bool isConfirmed(const Server& server) const { return isAbandoned_ || server.unconfirmed <= 0; }
  void expectConfirmations(Server& server) const {
    server.unconfirmed = hasOwnWeights_ ? static_cast<int>(pushed_.size())
                                        : static_cast<int>(tree_->cover(work_->grains).size());
  }
  bool hasPulled() const;

  std::shared_ptr<Connector> connector_;
  Options options_;
  std::uint64_t token_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::size_t arenaSize_ = 0;
  Acceptance acceptance_ = Acceptance::AtOnce;
  bool hasOwnWeights_ = false;
  bool hasBegun_ = false;  // with weights of the center
  // Of weights of its own.
  struct Own {
    std::uint64_t number = 0;                // random: which beginning, of all workers'
    std::vector<ServerVersion> begunWith{};  // by server
    std::int64_t exchanges = 0;
    std::vector<Step> steps{};  // since the last of them
    std::vector<ServerVersion>
        found{};  // gossip: by server, what the last visit was there; empty: there was none
  };
  Own own_;
  wire::Exchange exchange_;  // of what was pushed
  std::string config_;
  std::optional<GrainTree> tree_;
  std::span<float> weights_;
  bool hasEntered_ = false;
  std::uint64_t lastTicket_ = 0;
  std::uint64_t opening_ = 0;
  std::uint64_t invitedBy_ = 0;  // which greeting of the first server was answered with: open it

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string refusal_;
  int refusals_ = 0;  // in a row that were not the last word
  std::deque<wire::Envelope> orders_;
  std::optional<Work> work_;                 // the present one
  std::vector<Pushed> pushed_;               // of it
  std::vector<ServerVersion> computedWith_;  // by server: the weights of what was pushed
  bool isAbandoned_ = false;                 // it is another's now
  std::uint64_t breaks_ = 0;                 // how often that happened, with work or without
  bool isHaltAsked_ = false;                 // by a server that does not lead
  std::vector<std::string> notices_;
};

template <class Condition>
void CenterClient::Impl::wait(Condition&& condition, Leaving leaving) {
  std::unique_lock lock(mutex_);
  for (;;) {
    requireWanted();
    if (hasEntered_) dealWithWelcomes();
    if (condition()) return options_.waiting(-1);
    options_.waiting(awaitedServer());
    waitForNews(lock, leaving);
  }
}

}  // namespace cohort
