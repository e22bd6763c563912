// How those who are examined tell each other what they have found: by MPI where a launcher has joined them, otherwise at the
// addresses by which their cluster is named.
//
// The words: everybody has a *place*, from 0 on; the first one hears all the others, and tells all what it heard.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "cluster/cluster_map.h"
#include "comm/channel.h"
#include "doctor/facts.h"

namespace cohort {

class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual int place() const = 0;
  virtual int size() const = 0;
  // Everybody's texts on all, by place; nothing of those who are missing, or went. `what` is for an error's sentence.
  virtual std::vector<std::optional<std::string>> share(const std::string& text, const std::string& what) = 0;
  // The first one's on all.
  std::string tell(const std::string& text, const std::string& what);
};

// One alone.
std::unique_ptr<Meeting> aloneMeeting();

// The channel outlives it.
std::unique_ptr<Meeting> channelMeeting(const Channel& channel);

// Of members that have addresses.
struct NamedMeeting {
  std::unique_ptr<Meeting> meeting = {};
  std::vector<Missing> missing = {};  // known to the first one
  Descriptor listener = {};           // at the own port; nothing where that was taken
  std::string portError = {};         // and then why
};
// Waits so many seconds for all others; PeerError where the first one does not come.
NamedMeeting meetAt(const ClusterMap& cluster, double seconds);

}  // namespace cohort
