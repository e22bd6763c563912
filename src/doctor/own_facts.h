// What this process can find out by itself.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"

namespace cohort {

// What the caller knows and this module does not.
struct OwnPlace {
  std::string name = {};                    // "worker 2"
  int workers = 1;                          // that it is, or starts; a server is none
  std::string version = {};                 // of this program
  std::string instructionSet = {};          // the best that this processor and the kernels have
  std::vector<int> ports = {};              // where it is to listen in the run
  std::vector<std::string> busyPorts = {};  // of those that were tried already, as MemberFacts have them
};

// Everything but `linkPort`. Takes milliseconds: the program's file is read once.
MemberFacts ownFacts(const OwnPlace& place);

// Addresses of interfaces that are up, but for loopback ones, unless there are no others.
std::vector<HostAddress> hostAddresses();

}  // namespace cohort
