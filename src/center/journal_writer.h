// Writes a server's journals, one after the other. Used by one thread. Private to center.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "base/descriptor.h"
#include "center/journal_format.h"

namespace cohort {

class JournalWriter {
 public:
  // What fails is told to `warn`, once for each journal: that one ends there, and the server goes on.
  JournalWriter(std::filesystem::path folder, std::function<void(const std::string&)> warn)
      : folder_(std::move(folder)), warn_(std::move(warn)) {}
  ~JournalWriter() { end(); }
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  // A life of an opening begins. The one before ends.
  void begin(const JournalHead& head);
  // `token`: the member's on all servers.
  void add(const JournalUpdate& update, std::uint64_t token);
  // What was added is the operating system's from now on: it survives this process. Before anybody is shown the weights.
  void flush();
  void end();

 private:
  void fail(int error);

  std::filesystem::path folder_;
  std::function<void(const std::string&)> warn_;
  std::filesystem::path path_;
  Descriptor file_;  // none: nothing is written
  std::optional<JournalMemory> memory_;
  std::set<MemberId> members_;
  std::vector<std::byte> waiting_;
};

}  // namespace cohort
