// TCP with deadlines: connections that a doctor can wait for without hanging. Private to doctor.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace cohort {

using Deadline = std::chrono::steady_clock::time_point;

Deadline deadlineIn(double seconds);

// What a name means: addresses in text, or why it means nothing.
struct Resolved {
  std::vector<std::string> addresses;
  std::string error;
};
// All at once: a name server that is not there takes its time for each.
std::vector<Resolved> resolve(const std::vector<std::string>& names, Deadline deadline);

// Reached by all interfaces. Port 0: any that is free. Nothing where it cannot be had, and then `error` says why.
Descriptor listenAt(int port, std::string& error);
int portOf(const Descriptor& socket);

// To an address in text. Nothing where there is no connection before the deadline, and then `error` says why.
Descriptor connectTo(const std::string& address, int port, Deadline deadline, std::string& error);
// The next who connects; nothing when the deadline comes first.
Descriptor acceptAt(const Descriptor& listener, Deadline deadline);

// The own end's address.
std::string localAddress(const Descriptor& socket);

// All of it. PeerErrors where the other closes, or the deadline comes first.
void sendAll(const Descriptor& socket, std::span<const std::byte> bytes, Deadline deadline);
void receiveAll(const Descriptor& socket, std::span<std::byte> bytes, Deadline deadline);

// A text with its length before it, at most kLongestFrame.
inline constexpr std::size_t kLongestFrame = std::size_t{16} << 20;
void sendFrame(const Descriptor& socket, const std::string& text, Deadline deadline);
std::string receiveFrame(const Descriptor& socket, Deadline deadline);

}  // namespace cohort
