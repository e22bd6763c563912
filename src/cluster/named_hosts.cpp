#include "cluster/named_hosts.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace cohort {
namespace {

class Members {
 public:
  explicit Members(const std::string& source) : source_(source) {}

  void add(Role role, const std::vector<Address>& addresses) {
    for (std::size_t index = 0; index < addresses.size(); ++index) {
      const Address& address = addresses[index];
      const Member member{.role = role,
                          .index = static_cast<int>(index),
                          .host = address.host,
                          .localIndex = onHost_[address.host]++,
                          .port = address.port};
      const auto [other, isNew] = at_.emplace(toText(address), nameOf(member));
      if (!isNew) {
        throw UsageError(
            fmt::format("{} has {} twice, for {} and {}; give each process an address of its own", source_,
                        other->first, other->second, nameOf(member)));
      }
      members_.push_back(member);
    }
  }

  std::vector<Member> take() { return std::move(members_); }

 private:
  const std::string& source_;
  std::vector<Member> members_;
  std::map<std::string, std::string> at_;  // members by address
  std::map<std::string, int> onHost_;
};

}  // namespace

ClusterMap clusterOf(const NamedHosts& hosts, const std::string& source) {
  if (hosts.workers.empty()) {
    throw UsageError(fmt::format("{} names no worker; give at least one", source));
  }
  Members members(source);
  members.add(Role::Server, hosts.servers);
  members.add(Role::Worker, hosts.workers);
  members.add(Role::Evaluator, hosts.evaluators);
  return {.members = members.take(), .me = 0};
}

std::size_t placeOf(const ClusterMap& cluster, Role role, int index) {
  const auto found = std::ranges::find_if(
      cluster.members, [&](const Member& member) { return member.role == role && member.index == index; });
  COHORT_CHECK(found != cluster.members.end(), "the member exists");
  return static_cast<std::size_t>(found - cluster.members.begin());
}

}  // namespace cohort
