// What a server has done to its parameters, in order: a file for each of its lives in each opening of a run, from which the run can
// be computed again (see moment.h for the words).
//
//   file   := "cohortJ1" length head hash record*
//   record := number field* check
//
// length is 32 bits, hash and check are 64 and 16, least significant byte first; the head is a wire::JournalHead. All else are
// numbers in seven bits a byte, those that may be negative folded. The lowest three bits of a record's first number say its kind,
// those above which member it is about:
//
//   member   token                            before its first update
//   at once  step, seen, seen …               the gradient of a whole step, with the weights that it was computed with: of this
//                                             server how many updates lie between, of others how many since the record before
//   anew     step, life, seen, … , basis      the same, where a life is another than in the record before
//   whole                                     all grains of the next step
//   commit   ranges, gap, grains, …           some of them
//   steps    exchange, steps, step, step, …   before an update that is an exchange of a worker with weights of its own: which of its
//                                             exchanges, and the steps between the one before and that update's, each as the
//                                             difference to the one before it
//   begun    life, version, …                 before its first exchange: the weights that it began with
//   left                                      under gossip, an update by itself: a worker is gone
//
// A step is the difference to that of the record before. A check has all that stands before it in the file, so that what was
// written half, and what was changed, is known. A tail that is not whole, or zeros at the end, are those of a server that died
// while it wrote: they are left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "center/moment.h"
#include "center/setup.h"

namespace cohort {

// What a life begins with.
struct JournalHead {
  CenterSetup setup;
  int server = 0;
  int servers = 1;
  std::uint64_t life = 0;
  Step version = 0;
  // The server's earlier life whose snapshot it goes on with; nothing: what the run was opened with.
  std::optional<std::uint64_t> parent{};
};

// One update of the server's parameters.
struct JournalUpdate {
  MemberId member = -1;  // whose gradient it was; nobody's alone where members share a step
  Step step = 0;
  Step basis = 0;  // see ShardStore::Origin
  std::span<const ServerVersion>
      seen{};  // by server: the weights of the gradient; empty: all of this step's version
  std::span<const GrainRange> grains{};  // that count; empty: all
  // Where workers have weights of their own: which of this worker's exchanges it was (1, 2, 3 …) since it came or came again, the steps
  // that it had made since the one before (the last is `step`), and in the first, the weights of every server that it began with.
  // Under gossip exchanges are visits, one after each step, and `seen` is not weights but where the worker's last visit was an update: that is
  // what it has found in its mail.
  std::int64_t exchange = 0;
  std::span<const Step> steps{};
  std::span<const ServerVersion> begunWith{};
  bool isLeaving = false;  // gossip: no visit, but this member is gone
};

// A whole file's. Moved, but not copied: updates point into it.
class Journal {
 public:
  explicit Journal(JournalHead head) : head_(std::move(head)) {}
  Journal(Journal&&) = default;
  Journal& operator=(Journal&&) = default;

  const JournalHead& head() const { return head_; }
  // The one that makes version head().version + 1, and so on.
  std::size_t size() const { return updates_.size(); }
  JournalUpdate operator[](std::size_t index) const;
  Step end() const { return head_.version + static_cast<Step>(updates_.size()); }
  // Bytes that were left out, at the end.
  std::size_t torn() const { return torn_; }
  // Members that had updates, with the numbers that they have on all servers; where workers have weights of their own, another one
  // whenever they begin anew.
  struct Member {
    MemberId member = 0;
    std::uint64_t token = 0;
  };
  const std::vector<Member>& members() const { return members_; }

  void add(const JournalUpdate& update);
  void add(const Member& member) { members_.push_back(member); }
  void leaveOut(std::size_t bytes) { torn_ = bytes; }

 private:
  struct Place {
    MemberId member = 0;
    Step step = 0;
    Step basis = 0;
    std::size_t seen = 0;    // behind the last of them
    std::size_t grains = 0;  // likewise
    std::int64_t exchange = 0;
    std::size_t steps = 0;
    std::size_t begunWith = 0;
    bool isLeaving = false;
  };

  JournalHead head_;
  std::vector<Place> updates_;
  std::vector<ServerVersion> seen_;
  std::vector<GrainRange> grains_;
  std::vector<Step> steps_;
  std::vector<ServerVersion> begunWith_;
  std::vector<Member> members_;
  std::size_t torn_ = 0;
};

// IoError where it is damaged, with the place.
Journal readJournal(const std::filesystem::path& path);

inline constexpr std::string_view kJournalSuffix = ".journal";
// OPENING-SERVER-LIFE.journal
std::string journalName(std::uint64_t opening, int server, std::uint64_t life);

}  // namespace cohort
