#include "models/network.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "models/families.h"

namespace cohort {
namespace {

// Insertions, deletions and exchanges of one letter that turn `a` into `b`.
std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t exchanged = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({exchanged, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

void NetworkRegistry::add(Network network) {
  COHORT_CHECK(network.build != nullptr, "a network needs a function that builds it: " + network.name);
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
  const std::string nearest = *std::ranges::min_element(
      known, {}, [&](const std::string& other) { return editDistance(name, other); });
  for (const NamedFamily& member : families_) known.push_back(member.pattern);
  return fmt::format("there is no network called '{}'; did you mean '{}'? The networks are: {}", name,
                     nearest, fmt::join(known, ", "));
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
