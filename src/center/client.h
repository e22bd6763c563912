// A worker's side of a center: joins, is given work, sends gradients, gets weights.
//
// One thread uses it; push() may be called by all lanes at once. Where a server is lost, whoever waits tries to reach it again
// until the time for that is over; where that was the first server, the present work is another's by then.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/trainable.h"
#include "center/credentials.h"
#include "center/setup.h"

namespace cohort {

class CenterServer;
class Connector;

// Servers by their addresses, in their order.
std::shared_ptr<Connector> connectorTo(const std::vector<std::string>& addresses,
                                       const std::optional<Credentials>& credentials);
// Servers of this process, in their order; they outlive it.
std::shared_ptr<Connector> connectorTo(const std::vector<CenterServer*>& servers);

// This worker was asked to go while it waited for others.
class LeaveWanted : public std::exception {
 public:
  const char* what() const noexcept override { return "this worker was asked to leave"; }
};

class CenterClient {
 public:
  struct Options {
    double recoveryWait = 60;  // seconds that a server may be away
    std::string name = {};     // for people
    // Whether it shall go: looked at now and then while it waits for others, which then ends in LeaveWanted.
    std::function<bool()> isLeaving = [] { return false; };
    // Told which server it waits for, and -1 when it does so no more; quick, and on the thread that waits.
    std::function<void(int server)> waiting = [](int) {};
    // The newest step that this worker could open the run again with; 0: none.
    std::function<Step()> newestCheckpoint = [] { return Step{0}; };
  };
  CenterClient(std::shared_ptr<Connector> servers, const Options& options);
  ~CenterClient();
  CenterClient(const CenterClient&) = delete;
  CenterClient& operator=(const CenterClient&) = delete;

  struct Welcome {
    int member = 0;
    bool isOpen = false;  // otherwise this worker opens the run
    std::string config;
    Step done = 0;  // steps of a run that is open
  };
  // Waits until the run is open, or this worker is to open it. UsageError where a server does not want it, PeerError where one
  // does not answer. Again where open() was too late.
  Welcome join();

  struct Arena {
    std::string name;  // "weights", or a slot's
    std::span<const float> values;
  };
  struct ArenaToFill {
    std::string name;
    std::span<float> values;
  };
  // Brings a run into being: the weights and all slots. False where that is another's business meanwhile.
  bool open(const CenterSetup& setup, const std::vector<Arena>& state);

  // Ready to compute, with these weights from now on: next() fills them.
  void enter(const CenterSetup& setup, std::span<float> weights);

  // What this worker knows of the whole run.
  struct RunState {
    bool isChief = false;
    Step done = 0;  // steps
    LossSum loss;   // of the steps since the last order
  };
  struct Order {
    enum class Kind {
      Compute,
      Open,  // the center has lost what it had: this worker opens the run again, and enters
      End,  // no more work: the chief has its last duties, and says settle() after them; others ask for the next order
      Over  // the run is over
    };
    Kind kind = Kind::Compute;
    Work work;
    std::optional<Work> following{};  // where it is known already
    // With weights of one's own: they are the center's now, and nothing is left of what was before.
    bool isBeginning = false;
    bool isInterrupted = false;  // End: before its target, by somebody's wish
    RunState state{};
  };
  // Waits. On return the weights are those to compute with. PeerError where a server does not come back.
  Order next();

  // The sums of a tree node of the present work over these floats; `sums` is an arena, and stays as it is until the next order.
  // `keep` is what holds its memory. With weights of one's own: what is added to the center's, over the whole arena, after a fetch() of them.
  void push(int node, const ArenaRange& range, std::span<const float> sums,
            const std::shared_ptr<const void>& keep);
  // With weights of one's own: a number that they have, since they were the center's. No other worker has it.
  std::uint64_t ownWeights() const;
  // Under gossip, instead of push(), after each step of one's own: leaves a letter (an arena, kept as above; or none, where it is empty), and
  // takes the mail. Nothing where the run was broken off meanwhile.
  struct Mail {
    ArenaRange range;  // a server's
    double part = 0;   // how much it counts of all that this worker has then; 0: nothing has come
  };
  std::optional<std::vector<Mail>> visit(std::span<const float> letter,
                                         const std::shared_ptr<const void>& keep, std::span<float> mail);
  // All was pushed; with a loss for each grain.
  void finish(std::span<const LossSum> losses);

  struct Fetched {
    Step version = 0;     // how many updates they have had: the fewest, where servers differ
    CenterMoment moment;  // whose they are
  };
  // Weights and slots as they are now: each server's of one moment. Nothing where the run was broken off meanwhile: the next order
  // says how it goes on.
  std::optional<Fetched> fetch(const std::vector<ArenaToFill>& arenas);
  // The run shall end, as if its target was reached. Saying it again does no harm.
  void halt();
  // A chief's last duties are done.
  void settle();

  // What people should know of the servers, since the last call.
  std::vector<std::string> takeNotices();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort
