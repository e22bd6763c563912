#include "doctor/link.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "doctor/own_facts.h"
#include "doctor/socket.h"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

// What is asked: one letter, and a number of bytes.
enum class Ask : std::uint8_t {
  Echo = 'E',  // answered by one byte
  Take = 'T',  // the bytes follow, and are answered by one
  Give = 'G',  // answered by the bytes
};
struct Question {
  Ask ask = Ask::Echo;
  std::array<std::uint8_t, 7> unused = {};
  std::uint64_t bytes = 0;
};
static_assert(sizeof(Question) == 16);

constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr int kEchoes = 10;
constexpr double kAnswerSeconds = 20;   // for a link that is slow beyond use
constexpr double kStrangerSeconds = 1;  // to say the token

using Block = std::vector<std::byte>;

void sendBytes(const Descriptor& socket, std::uint64_t bytes, const Block& block, Deadline deadline) {
  for (; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, block.size())) {
    sendAll(socket, std::span(block).first(std::min<std::uint64_t>(bytes, block.size())), deadline);
  }
}

void receiveBytes(const Descriptor& socket, std::uint64_t bytes, Block& block, Deadline deadline) {
  for (; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, block.size())) {
    receiveAll(socket, std::span(block).first(std::min<std::uint64_t>(bytes, block.size())), deadline);
  }
}

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One question, from its first byte to the last one of its answer; seconds.
double asked(const Descriptor& socket, Ask ask, std::uint64_t bytes, Block& block) {
  const Deadline deadline = deadlineIn(kAnswerSeconds);
  const Question question{.ask = ask, .bytes = bytes};
  const auto start = Clock::now();
  sendAll(socket, std::as_bytes(std::span(&question, 1)), deadline);
  if (ask == Ask::Take) sendBytes(socket, bytes, block, deadline);
  receiveBytes(socket, ask == Ask::Give ? bytes : 1, block, deadline);
  return secondsSince(start);
}

// More and more bytes, until they take long enough to tell: the first ones find windows small and buckets full.
double rateOf(const Descriptor& socket, Ask ask, double seconds, double roundTrip, Block& block) {
  double rate = 0;
  for (std::uint64_t bytes = kLeastBytes;; bytes *= 2) {
    double taken = asked(socket, ask, bytes, block);
    const bool isLast = taken >= 0.4 * seconds || bytes >= kMostBytes;
    // Long may mean a slow link, or that this process had no core just then.
    if (isLast) taken = std::min(taken, asked(socket, ask, bytes, block));
    rate = static_cast<double>(bytes) / std::max(taken - roundTrip, 0.1 * taken);
    if (taken >= 0.4 * seconds || bytes >= kMostBytes) return rate;
  }
}

// The interface that has this address.
std::string interfaceOf(const std::string& address) {
  const std::vector<HostAddress> own = hostAddresses();
  const auto found = std::ranges::find(own, address, &HostAddress::address);
  return found == own.end() ? "lo" : found->interface;
}

}  // namespace

LinkServer::LinkServer(Descriptor listener, std::string token)
    : listener_(std::move(listener)), token_(std::move(token)), thread_([this] { serve(); }) {}

LinkServer::~LinkServer() {
  stop_ = true;
  thread_.join();
}

void LinkServer::serve() {
  constexpr double kLook = 0.05;
  while (!stop_) {
    const Descriptor connection = acceptAt(listener_, deadlineIn(kLook));
    if (!connection) continue;
    try {
      answer(connection);
    } catch (const PeerError&) {
      continue;  // who asked notices it, and says so
    }
  }
}

void LinkServer::answer(const Descriptor& connection) {
  std::string token(token_.size(), '\0');
  receiveAll(connection, std::as_writable_bytes(std::span(token)), deadlineIn(kStrangerSeconds));
  if (token != token_) return;
  sendAll(connection, std::as_bytes(std::span(token_)), deadlineIn(kStrangerSeconds));
  Block block(kBlockBytes);
  for (;;) {
    const Deadline deadline = deadlineIn(kAnswerSeconds);
    Question question;
    receiveAll(connection, std::as_writable_bytes(std::span(&question, 1)), deadline);
    if (question.bytes > kMostBytes) return;
    if (question.ask == Ask::Take) receiveBytes(connection, question.bytes, block, deadline);
    sendBytes(connection, question.ask == Ask::Give ? question.bytes : 1, block, deadline);
  }
}

LinkFacts measureLink(const LinkTarget& target, const LinkProbe& probe) {
  LinkFacts link;
  const Deadline deadline = deadlineIn(probe.connectSeconds);
  Descriptor socket;
  for (std::size_t i = 0; i < target.addresses.size() && !socket; ++i) {
    // Each has its share of the time that is left.
    const auto left = (deadline - Clock::now()) / static_cast<int>(target.addresses.size() - i);
    std::string error;
    socket = connectTo(target.addresses[i], target.port, Clock::now() + left, error);
    if (!socket) {
      link.error += fmt::format("{}{}: {}", link.error.empty() ? "" : "; ", target.addresses[i], error);
      continue;
    }
    link.address = target.addresses[i];
  }
  if (!socket) {
    if (link.error.empty()) link.error = "it has no address";
    return link;
  }
  link.error.clear();
  link.interface = interfaceOf(localAddress(socket));
  try {
    sendAll(socket, std::as_bytes(std::span(probe.token)), deadlineIn(probe.connectSeconds));
    std::string answer(probe.token.size(), '\0');
    receiveAll(socket, std::as_writable_bytes(std::span(answer)), deadlineIn(probe.connectSeconds));
    if (answer != probe.token) throw PeerError("what answers there is no cohort doctor of this cluster");
    Block block(kBlockBytes);
    link.roundTrip = asked(socket, Ask::Echo, 0, block);
    for (int i = 1; i < kEchoes; ++i)
      link.roundTrip = std::min(link.roundTrip, asked(socket, Ask::Echo, 0, block));
    if (probe.rateSeconds > 0) {
      link.there = rateOf(socket, Ask::Take, probe.rateSeconds, link.roundTrip, block);
      link.back = rateOf(socket, Ask::Give, probe.rateSeconds, link.roundTrip, block);
    }
  } catch (const PeerError& error) {
    link.error = fmt::format("{}: {}", link.address, error.what());
  }
  return link;
}

}  // namespace cohort
