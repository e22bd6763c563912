// Measuring the way from one host to another, by connections of our own. Private to doctor.
//
// Every host answers at a port, on a thread; whoever measures asks. A connection begins with the token that all members were
// told: strangers are left alone.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "doctor/facts.h"

namespace cohort {

// Answers until it goes, one connection at a time.
class LinkServer {
 public:
  LinkServer(Descriptor listener, std::string token);
  ~LinkServer();
  LinkServer(const LinkServer&) = delete;
  LinkServer& operator=(const LinkServer&) = delete;

 private:
  void serve();
  void answer(const Descriptor& connection);

  Descriptor listener_;
  std::string token_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

struct LinkTarget {
  std::vector<std::string> addresses = {};  // where it may be; the first that answers counts
  int port = 0;
};

struct LinkProbe {
  std::string token = {};
  double connectSeconds = 1;
  double rateSeconds = 0;  // to spend for each direction; 0: only whether it is there
};

// `from`, `to` and `nameError` are not set.
LinkFacts measureLink(const LinkTarget& target, const LinkProbe& probe);

}  // namespace cohort
