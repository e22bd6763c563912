// The bytes of a journal (see journal.h), for those who write and read them. Private to center.
#pragma once

#include <cstddef>
#include <vector>

#include "center/journal.h"

namespace cohort {

inline constexpr std::string_view kJournalMagic = "cohortJ1";

// All before the first record.
std::vector<std::byte> journalHead(const JournalHead& head);

class RecordReader;

// What a writer and a reader keep in mind from one record to the next.
class JournalMemory {
 public:
  // `before`: the bytes of the head.
  JournalMemory(const JournalHead& head, std::span<const std::byte> before);

  // Append a record. Nothing is allocated where there is room.
  void write(const Journal::Member& member, std::vector<std::byte>& out);
  void write(const JournalUpdate& update, std::vector<std::byte>& out);

  // Takes a record from the front and adds it to the journal.
  enum class Found { Whole, Part, WrongCheck, Nonsense };
  Found read(std::span<const std::byte>& bytes, Journal& journal);
  // Of the last record that was read up to its check: where that is in the record, and what it should be.
  struct Check {
    std::size_t at = 0;
    std::uint16_t value = 0;
  };
  const Check& lastCheck() const { return check_; }

 private:
  friend class RecordReader;

  struct Record;
  Record parse(RecordReader& reader) const;
  void close(std::vector<std::byte>& out, std::size_t begin);
  void writeLeaving(MemberId member, std::vector<std::byte>& out);
  void writeOwn(const JournalUpdate& update, std::vector<std::byte>& out);
  void writeAtOnce(const JournalUpdate& update, std::vector<std::byte>& out) const;
  bool isUsual(const JournalUpdate& update) const;
  bool isExchangeOf(MemberId member) const;
  void remember(const JournalUpdate& update);

  // What stands before an exchange.
  struct Exchange {
    MemberId member = 0;
    std::int64_t number = 0;
    std::vector<Step> steps{};
    std::vector<ServerVersion> begunWith{};
  };

  Acceptance acceptance_;
  bool hasOwnWeights_;
  bool hasMail_;
  int grains_;
  std::size_t own_;
  std::uint64_t chain_;
  Check check_;
  Step version_;
  Step step_;
  std::vector<ServerVersion> seen_;  // in the last record, by server
  Exchange exchange_;                // that was read, of the update to come
};

}  // namespace cohort
