#include "doctor/facts.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

template <class Read>
auto parsed(std::string_view text, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception&) {
    throw PeerError("another process tells what is no text of cohort doctor; give all the same program");
  }
}

// File names and error texts may hold any bytes.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<std::vector<int>> membersByHost(const std::vector<std::optional<MemberFacts>>& members) {
  std::vector<std::vector<int>> hosts;
  for (std::size_t member = 0; member < members.size(); ++member) {
    if (!members[member]) continue;
    const auto isHere = [&](const std::vector<int>& host) {
      const MemberFacts& first = *members[static_cast<std::size_t>(host.front())];
      return first.host == members[member]->host && first.machine == members[member]->machine;
    };
    const auto found = std::ranges::find_if(hosts, isHere);
    if (found == hosts.end()) {
      hosts.push_back({static_cast<int>(member)});
    } else {
      found->push_back(static_cast<int>(member));
    }
  }
  return hosts;
}

std::string toText(const MemberFacts& facts) {
  Json addresses = Json::array();
  for (const HostAddress& address : facts.addresses)
    addresses.push_back({address.interface, address.address});
  return dumped({{"name", facts.name},
                 {"workers", facts.workers},
                 {"host", facts.host},
                 {"machine", facts.machine},
                 {"addresses", addresses},
                 {"link_port", facts.linkPort},
                 {"program", facts.program},
                 {"instruction_set", facts.instructionSet},
                 {"online", facts.onlineCores},
                 {"cores", facts.cores},
                 {"memory", facts.memoryBytes},
                 {"free", facts.freeBytes},
                 {"busy_ports", facts.busyPorts}});
}

MemberFacts memberFactsOf(std::string_view text) {
  return parsed(text, [](const Json& json) {
    MemberFacts facts{.name = json.at("name"),
                      .workers = json.at("workers"),
                      .host = json.at("host"),
                      .machine = json.at("machine"),
                      .addresses = {},
                      .linkPort = json.at("link_port"),
                      .program = json.at("program"),
                      .instructionSet = json.at("instruction_set"),
                      .onlineCores = json.at("online"),
                      .cores = json.at("cores"),
                      .memoryBytes = json.at("memory"),
                      .freeBytes = json.at("free"),
                      .busyPorts = json.at("busy_ports")};
    for (const Json& address : json.at("addresses"))
      facts.addresses.push_back({address.at(0), address.at(1)});
    return facts;
  });
}

std::string toText(const DirectoryFacts& facts) {
  return dumped({{"error", facts.error}, {"unseen", facts.unseen}, {"rate", facts.bytesPerSecond}});
}

DirectoryFacts directoryFactsOf(std::string_view text) {
  return parsed(text, [](const Json& json) {
    return DirectoryFacts{
        .error = json.at("error"), .unseen = json.at("unseen"), .bytesPerSecond = json.at("rate")};
  });
}

std::string toText(const std::vector<LinkFacts>& links) {
  Json list = Json::array();
  for (const LinkFacts& link : links) {
    list.push_back({{"from", link.from},
                    {"to", link.to},
                    {"name_error", link.nameError},
                    {"error", link.error},
                    {"address", link.address},
                    {"interface", link.interface},
                    {"round_trip", link.roundTrip},
                    {"there", link.there},
                    {"back", link.back}});
  }
  return dumped(list);
}

std::vector<LinkFacts> linkFactsOf(std::string_view text) {
  return parsed(text, [](const Json& json) {
    std::vector<LinkFacts> links;
    for (const Json& link : json) {
      links.push_back({.from = link.at("from"),
                       .to = link.at("to"),
                       .nameError = link.at("name_error"),
                       .error = link.at("error"),
                       .address = link.at("address"),
                       .interface = link.at("interface"),
                       .roundTrip = link.at("round_trip"),
                       .there = link.at("there"),
                       .back = link.at("back")});
    }
    return links;
  });
}

std::string toText(const std::vector<Missing>& missing) {
  Json list = Json::array();
  for (const Missing& one : missing) {
    list.push_back({{"member", one.member}, {"name", one.name}, {"reason", one.reason}});
  }
  return dumped(list);
}

std::vector<Missing> missingOf(std::string_view text) {
  return parsed(text, [](const Json& json) {
    std::vector<Missing> missing;
    for (const Json& one : json) {
      missing.push_back({.member = one.at("member"), .name = one.at("name"), .reason = one.at("reason")});
    }
    return missing;
  });
}

}  // namespace cohort
