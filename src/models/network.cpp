#include "models/network.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "models/families.h"

namespace cohort {
void NetworkRegistry::add(Network network) {
  COHORT_CHECK(network.build || network.foreign,
               "a network needs a function that builds it: " + network.name);
  if (std::ranges::find(networks_, network.name, &Network::name) != networks_.end()) {
    throw UsageError(fmt::format("two networks are called {}; give one of them another name", network.name));
  }
  networks_.push_back(std::move(network));
}

void NetworkRegistry::addFamily(std::string pattern, Family family) {
  families_.push_back({std::move(pattern), std::move(family)});
}

Network NetworkRegistry::find(std::string_view name) const {
  const auto found = std::ranges::find(networks_, name, &Network::name);
  if (found != networks_.end()) return *found;
  for (const NamedFamily& member : families_) {
    if (std::optional<Network> network = member.family(name)) return *std::move(network);
  }
  throw UsageError(unknownName(name));
}

std::vector<std::string> NetworkRegistry::names() const {
  std::vector<std::string> result;
  for (const Network& network : networks_) result.push_back(network.name);
  return result;
}

std::string NetworkRegistry::unknownName(std::string_view name) const {
  std::vector<std::string> known = names();
  if (known.empty()) return fmt::format("there is no network called '{}': the registry is empty", name);
  const std::string nearest = nearestWord(name, known);
  for (const NamedFamily& member : families_) known.push_back(member.pattern);
  return fmt::format("there is no network called '{}'{} The networks are: {}", name,
                     nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest),
                     fmt::join(known, ", "));
}

NetworkRegistry builtinNetworks() {
  NetworkRegistry registry;
  addMnistNetworks(registry);
  addCifarNetworks(registry);
  addCifarResidualNetworks(registry);
  addAlexNets(registry);
  addOverFeat(registry);
  addVggNetworks(registry);
  addGoogLeNet(registry);
  addResNet50(registry);
  return registry;
}

}  // namespace cohort
