#include "comm/mesh_meeting.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kBetweenTries{100};
constexpr std::chrono::seconds kGreetingLimit{10};

struct Greeting {
  std::array<char, 8> program{'c', 'o', 'h', 'o', 'r', 't', '-', '1'};
  std::uint32_t size = 0;
  std::uint32_t rank = 0;

  bool operator==(const Greeting&) const = default;
};

// Where a socket can be bound, or connected to.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

constexpr std::string_view kUnix = "unix:";

bool isUnix(const std::string& address) {
  return address.starts_with(kUnix);
}

std::vector<Endpoint> unixEndpoint(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path)
    throw IoError(fmt::format("the socket's path {} is too long for the system", path));
  path.copy(address.sun_path, path.size());
  Endpoint endpoint{.length = sizeof address};
  std::memcpy(&endpoint.address, &address, sizeof address);
  return {endpoint};
}

// Of "HOST:PORT", "[::]:PORT", "unix:PATH". PeerError where nobody knows the host.
std::vector<Endpoint> resolve(const std::string& address, int flags) {
  if (isUnix(address)) return unixEndpoint(address.substr(kUnix.size()));
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &list);
  if (error != 0) throw PeerError(fmt::format("{}: {}", address, ::gai_strerror(error)));
  std::vector<Endpoint> endpoints;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    Endpoint& endpoint = endpoints.emplace_back(Endpoint{.length = one->ai_addrlen});
    std::memcpy(&endpoint.address, one->ai_addr, one->ai_addrlen);
  }
  ::freeaddrinfo(list);
  return endpoints;
}

Descriptor socketOf(const Endpoint& endpoint) {
  return Descriptor(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

class Meeting {
 public:
  explicit Meeting(const MeshPlace& place)
      : place_(place),
        maker_(place.credentials, place.silence),
        end_(Clock::now() + std::chrono::milliseconds(static_cast<int>(place.patience * 1e3))),
        streams_(place.addresses.size()),
        why_(place.addresses.size()) {}

  // Those behind this one are called, those before it come. One that dies meanwhile, and is started again, meets the others anew.
  std::vector<std::unique_ptr<SocketStream>> gather() {
    Descriptor listener;
    if (place_.rank > 0) listener = listen();
    while (const std::optional<std::size_t> missing = firstMissing()) {
      if (Clock::now() > end_) fail(*missing);
      if (place_.isGivenUp()) throw PeerError("the meeting was given up");
      for (std::size_t other = own() + 1; other < streams_.size(); ++other) {
        if (!streams_[other]) call(other);
      }
      answer(listener);
    }
    return std::move(streams_);
  }

 private:
  std::size_t own() const { return static_cast<std::size_t>(place_.rank); }
  Greeting greetingOf(std::size_t rank) const {
    return {.size = static_cast<std::uint32_t>(streams_.size()), .rank = static_cast<std::uint32_t>(rank)};
  }
  [[noreturn]] void fail(std::size_t missing) const {
    throw PeerError(fmt::format(
        "worker {} at {} {} within {:g} s; start it there too, or see that its port can be reached",
        place_.first + static_cast<int>(missing), place_.addresses[missing],
        missing < own() ? "did not come" : fmt::format("did not answer ({})", why_[missing]),
        place_.patience));
  }
  static SocketStream::Deadline greetingEnd() { return Clock::now() + kGreetingLimit; }

  std::optional<std::size_t> firstMissing();
  Descriptor listen() const;
  void call(std::size_t other);
  void answer(const Descriptor& listener);

  const MeshPlace& place_;
  StreamMaker maker_;
  SocketStream::Deadline end_;
  std::vector<std::unique_ptr<SocketStream>> streams_;  // by rank
  std::vector<std::string> why_;                        // a call failed last, by rank
};

std::optional<std::size_t> Meeting::firstMissing() {
  std::optional<std::size_t> missing;
  for (std::size_t other = 0; other < streams_.size(); ++other) {
    if (streams_[other] && streams_[other]->hasEnded()) streams_[other].reset();
    if (!streams_[other] && other != own() && !missing) missing = other;
  }
  return missing;
}

Descriptor Meeting::listen() const {
  if (isUnix(place_.listen)) ::unlink(place_.listen.substr(kUnix.size()).c_str());  // of an earlier start
  int error = 0;
  for (const Endpoint& endpoint : resolve(place_.listen, AI_PASSIVE)) {
    Descriptor listener = socketOf(endpoint);
    const int on = 1;
    if (listener) ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener && ::bind(listener.get(), endpoint.get(), endpoint.length) == 0 &&
        ::listen(listener.get(), SOMAXCONN) == 0)
      return listener;
    error = errno;
  }
  throw IoError(fmt::format("cannot listen at {}: {}", place_.listen, systemMessage(error)));
}

void Meeting::call(std::size_t other) {
  try {
    for (const Endpoint& endpoint : resolve(place_.addresses[other], 0)) {
      Descriptor socket = socketOf(endpoint);
      if (!socket || ::connect(socket.get(), endpoint.get(), endpoint.length) != 0) {
        why_[other] = systemMessage(errno);
        continue;
      }
      std::unique_ptr<SocketStream> stream =
          maker_.make(std::move(socket), StreamMaker::Side::Connected, greetingEnd());
      const Greeting greeting = greetingOf(own());
      stream->writeAll(std::as_bytes(std::span(&greeting, 1)), greetingEnd());
      Greeting heard;
      stream->readAll(std::as_writable_bytes(std::span(&heard, 1)), end_);  // it may still wait for others
      if (heard != greetingOf(other)) throw PeerError("another cluster is there");
      streams_[other] = std::move(stream);
      return;
    }
  } catch (const PeerError& error) {
    why_[other] = error.what();
  }
}

// A stranger costs nothing but a moment, as does a look where nobody can come.
void Meeting::answer(const Descriptor& listener) {
  if (!listener) {
    if (firstMissing()) std::this_thread::sleep_for(kBetweenTries);
    return;
  }
  pollfd ready{.fd = listener.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, static_cast<int>(kBetweenTries.count())) <= 0) return;
  Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  try {
    std::unique_ptr<SocketStream> stream =
        maker_.make(std::move(socket), StreamMaker::Side::Accepted, greetingEnd());
    Greeting heard;
    stream->readAll(std::as_writable_bytes(std::span(&heard, 1)), greetingEnd());
    if (heard.rank >= own() || heard != greetingOf(heard.rank)) return;
    const Greeting greeting = greetingOf(own());
    stream->writeAll(std::as_bytes(std::span(&greeting, 1)), greetingEnd());
    streams_[heard.rank] = std::move(stream);  // one that comes again was started again
  } catch (const PeerError&) {
    return;
  }
}

}  // namespace

std::vector<std::unique_ptr<SocketStream>> meetWorkers(const MeshPlace& place) {
  return Meeting(place).gather();
}

}  // namespace cohort
