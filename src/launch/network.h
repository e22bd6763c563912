// What this machine has to do with networks.
#pragma once

#include <vector>

#include "base/descriptor.h"
#include "cluster/reachable.h"

namespace cohort {

// Of its interfaces that are up, without loopback.
std::vector<NetworkAddress> networkAddresses();

// A port that nobody listens at, kept from others while this lives.
class FreePort {
 public:
  FreePort() = default;  // none
  // IoError where there is none.
  static FreePort any();

  int number() const { return number_; }  // 0: none

 private:
  Descriptor socket_;
  int number_ = 0;
};

}  // namespace cohort
