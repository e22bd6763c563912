#include "doctor/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Of a name, or of an address in text.
Addresses addressesOf(const std::string& host, int port, int flags, std::string& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) error = code == EAI_SYSTEM ? systemMessage(errno) : ::gai_strerror(code);
  return Addresses(code == 0 ? list : nullptr);
}

std::string textOf(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    // What comes to a socket for both kinds has its IPv4 address inside of this.
    if (IN6_IS_ADDR_V4MAPPED(&six)) {
      ::inet_ntop(AF_INET, &six.s6_addr[12], text.data(), text.size());
    } else {
      ::inet_ntop(AF_INET6, &six, text.data(), text.size());
    }
  }
  return text.data();
}

// False when the deadline comes first.
bool waitFor(const Descriptor& socket, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd poll{.fd = socket.get(), .events = events, .revents = 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the next call says what is wrong
    if (Clock::now() >= deadline) return false;
  }
}

void sendAtOnce(const Descriptor& socket) {
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

Resolved resolvedName(const std::string& name) {
  Resolved found;
  const Addresses list = addressesOf(name, 0, 0, found.error);
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    const std::string text = textOf(entry->ai_addr);
    if (!text.empty() && std::ranges::find(found.addresses, text) == found.addresses.end())
      found.addresses.push_back(text);
  }
  if (found.addresses.empty() && found.error.empty()) found.error = "it has no address";
  return found;
}

}  // namespace

Deadline deadlineIn(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::vector<Resolved> resolve(const std::vector<std::string>& names, Deadline deadline) {
  // The system's function cannot be told to end: what it finds too late goes to nobody.
  struct Answers {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Resolved> found;
    std::size_t open = 0;
  };
  const auto answers = std::make_shared<Answers>();
  answers->found.assign(names.size(), {.addresses = {}, .error = "the name server does not answer"});
  answers->open = names.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::thread([answers, i, name = names[i]] {
      Resolved found = resolvedName(name);
      const std::lock_guard lock(answers->mutex);
      answers->found[i] = std::move(found);
      --answers->open;
      answers->changed.notify_one();
    }).detach();
  }
  std::unique_lock lock(answers->mutex);
  answers->changed.wait_until(lock, deadline, [&] { return answers->open == 0; });
  return answers->found;
}

Descriptor listenAt(int port, std::string& error) {
  const int yes = 1;
  const int no = 0;
  // One for both kinds of addresses, or where the machine has no IPv6, for the older.
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  six.sin6_addr = in6addr_any;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  Descriptor listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool isBoth =
      listener && ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0;
  if (!isBoth) listener = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (listener) ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const auto* address =
      isBoth ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  const socklen_t size = isBoth ? sizeof six : sizeof four;
  if (listener && ::bind(listener.get(), address, size) == 0 && ::listen(listener.get(), SOMAXCONN) == 0) {
    return listener;
  }
  error = systemMessage(errno);
  return {};
}

int portOf(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Descriptor connectTo(const std::string& address, int port, Deadline deadline, std::string& error) {
  const Addresses list = addressesOf(address, port, AI_NUMERICHOST, error);
  if (!list) return {};
  Descriptor socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    error = systemMessage(errno);
    return {};
  }
  if (::connect(socket.get(), list->ai_addr, list->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) {
      error = systemMessage(errno);
      return {};
    }
    int code = ETIMEDOUT;
    socklen_t size = sizeof code;
    if (waitFor(socket, POLLOUT, deadline)) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) {
      error = systemMessage(code);
      return {};
    }
  }
  sendAtOnce(socket);
  return socket;
}

Descriptor acceptAt(const Descriptor& listener, Deadline deadline) {
  while (waitFor(listener, POLLIN, deadline)) {
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      sendAtOnce(socket);
      return socket;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) return {};
  }
  return {};
}

std::string localAddress(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return textOf(reinterpret_cast<const sockaddr*>(&address));
}

void sendAll(const Descriptor& socket, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      throw PeerError(systemMessage(errno));
    } else if (!waitFor(socket, POLLOUT, deadline)) {
      throw PeerError(systemMessage(ETIMEDOUT));
    }
  }
}

void receiveAll(const Descriptor& socket, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (received > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    } else if (received == 0) {
      throw PeerError("it has closed the connection");
    } else if (errno != EAGAIN && errno != EINTR) {
      throw PeerError(systemMessage(errno));
    } else if (!waitFor(socket, POLLIN, deadline)) {
      throw PeerError(systemMessage(ETIMEDOUT));
    }
  }
}

void sendFrame(const Descriptor& socket, const std::string& text, Deadline deadline) {
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(text.size()));
  sendAll(socket, std::as_bytes(std::span(&length, 1)), deadline);
  sendAll(socket, std::as_bytes(std::span(text)), deadline);
}

std::string receiveFrame(const Descriptor& socket, Deadline deadline) {
  std::uint32_t length = 0;
  receiveAll(socket, std::as_writable_bytes(std::span(&length, 1)), deadline);
  length = ntohl(length);
  if (length > kLongestFrame) throw PeerError("what answers there is no cohort doctor");
  std::string text(length, '\0');
  receiveAll(socket, std::as_writable_bytes(std::span(text)), deadline);
  return text;
}

}  // namespace cohort
