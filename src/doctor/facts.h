// What is known of the ground that a run stands on, before any judgement.
//
// The words: a *member* is a process that takes part; a *host* is where some of them run, and the first of these speaks for
// it. A *link* is the way from one host to another, as connections find it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// An address of a host, and where it is plugged in.
struct HostAddress {
  std::string interface = {};
  std::string address = {};

  bool operator==(const HostAddress&) const = default;
};

// What one member found of the folder that all should share.
struct DirectoryFacts {
  std::string error = {};        // why it cannot write there; empty: it can
  std::vector<int> unseen = {};  // members whose marks it does not find there
  double bytesPerSecond = 0;     // that reach the disk; 0: not measured
  bool operator==(const DirectoryFacts&) const = default;
};

struct MemberFacts {
  std::string name = {};     // "worker 2"
  int workers = 1;           // that it is, or starts
  std::string host = {};     // its host's name
  std::string machine = {};  // what tells machines of one name apart
  std::vector<HostAddress> addresses = {};
  int linkPort = 0;  // where others measure the way to it; 0: nowhere

  std::string program = {};         // version and hash
  std::string instructionSet = {};  // "avx2"

  int onlineCores = 1;           // that the host has
  std::vector<int> cores = {};   // that this member may use
  std::int64_t memoryBytes = 0;  // that the host, or what it is confined to, has
  std::int64_t freeBytes = 0;    // and has left

  std::vector<std::string> busyPorts = {};  // "7000: address already in use"
  bool operator==(const MemberFacts&) const = default;
};

// From the host of one member to that of another.
struct LinkFacts {
  int from = 0;
  int to = 0;
  std::string nameError = {};  // the other's name means nothing here; empty: it does
  std::string error = {};      // no connection; empty: there was one
  std::string address = {};    // of the other, that was reached
  std::string interface = {};  // of the own host, that leads there
  double roundTrip = 0;        // seconds
  // Bytes a second; 0: not measured.
  double there = 0;
  double back = 0;
  bool operator==(const LinkFacts&) const = default;
};

// What is to run, as far as it is known.
struct PlannedRun {
  bool isGiven = false;
  std::string instructionSet = {};  // that all are told to use; empty: each its best
  int lanes = 0;                    // of a worker; 0: one for each of its cores
  std::int64_t workerBytes = 0;     // 0: not known
  std::int64_t gradientBytes = 0;   // that a step moves to and from each worker; 0: not known
};

// Of one who was named, and did not come.
struct Missing {
  int member = 0;
  std::string name = {};    // "worker 2 at c:2222"
  std::string reason = {};  // what one more try found
};

// All of it. What was not looked at is empty.
struct Survey {
  PlannedRun plan = {};
  std::vector<std::optional<MemberFacts>> members = {};  // nothing of those that are missing
  std::vector<Missing> missing = {};
  double waited = 0;  // seconds, for these
  // By member: seconds that its clock is ahead of the first one's, for certain.
  std::vector<double> clockAhead = {};
  std::string directory = {};                    // that was looked at; empty: none
  std::vector<DirectoryFacts> directories = {};  // by member
  std::vector<LinkFacts> links = {};
};

// By host: those of its members that are here, the first of which speaks for it.
std::vector<std::vector<int>> membersByHost(const std::vector<std::optional<MemberFacts>>& members);

// As members send them to each other. PeerError where a text is none of them.
std::string toText(const MemberFacts& facts);
MemberFacts memberFactsOf(std::string_view text);
std::string toText(const DirectoryFacts& facts);
DirectoryFacts directoryFactsOf(std::string_view text);
std::string toText(const std::vector<LinkFacts>& links);
std::vector<LinkFacts> linkFactsOf(std::string_view text);
std::string toText(const std::vector<Missing>& missing);
std::vector<Missing> missingOf(std::string_view text);

}  // namespace cohort
