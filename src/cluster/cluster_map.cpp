#include "cluster/cluster_map.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "cluster/address.h"

namespace cohort {
namespace {

struct Column {
  const char* name = "";
  std::function<std::string(const Member&)> text;
};

std::string numberText(const std::optional<int>& number) {
  return number ? fmt::format("{}", *number) : "";
}

std::string addressText(const Member& member) {
  return member.port ? toText(Address{member.host, *member.port}) : "";
}

std::vector<Column> columnsOf(const ClusterMap& cluster) {
  const auto has = [&](auto part) {
    return std::ranges::any_of(cluster.members,
                               [&](const Member& member) { return (member.*part).has_value(); });
  };
  std::vector<Column> columns = {{"member", nameOf}};
  if (has(&Member::rank))
    columns.push_back({"rank", [](const Member& member) { return numberText(member.rank); }});
  if (has(&Member::group))
    columns.push_back({"group", [](const Member& member) { return numberText(member.group); }});
  columns.push_back({"host", [](const Member& member) { return member.host; }});
  columns.push_back({"local", [](const Member& member) { return fmt::format("{}", member.localIndex); }});
  if (has(&Member::port)) columns.push_back({"address", addressText});
  return columns;
}

}  // namespace

std::string toText(Role role) {
  switch (role) {
    case Role::Server:
      return "server";
    case Role::Worker:
      return "worker";
    case Role::Evaluator:
      break;
  }
  return "evaluator";
}

std::string nameOf(const Member& member) {
  return fmt::format("{} {}", toText(member.role), member.index);
}

std::size_t ClusterMap::count(Role role) const {
  return static_cast<std::size_t>(std::ranges::count(members, role, &Member::role));
}

ClusterMap oneMachine(const std::string& host) {
  return {.members = {{.role = Role::Worker, .index = 0, .host = host}}, .me = 0};
}

std::string toText(const ClusterMap& cluster) {
  std::vector<std::string> lines(cluster.members.size() + 1);
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i] = i == cluster.me + 1 ? "*" : " ";
  for (const Column& column : columnsOf(cluster)) {
    std::vector<std::string> cells = {column.name};
    for (const Member& member : cluster.members) cells.push_back(column.text(member));
    std::size_t width = 0;
    for (const std::string& cell : cells) width = std::max(width, cell.size());
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += fmt::format(" {:<{}} ", cells[i], width);
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace cohort
