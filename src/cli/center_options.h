// Addresses of a center, and what lets a process in. Private to cli.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "center/credentials.h"
#include "comm/mesh_transport.h"

namespace cohort {

// Whether only this machine reaches it: a loopback address (127.0.0.0/8, [::1], localhost) or a socket in the file system.
bool isPrivateAddress(const std::string& address);

// "HOST:PORT,HOST:PORT" -> each; UsageError where one is none.
std::vector<std::string> parseAddresses(const std::string& text, const std::string& flag);

// From `file`, where that is given. UsageError where an address is on another machine and neither `file` nor `insecure` is.
std::optional<Credentials> credentialsFor(const std::vector<std::string>& addresses, const std::string& file,
                                          bool insecure);

// The same for workers that are connected with each other.
std::optional<MeshCredentials> meshCredentials(const std::optional<Credentials>& credentials);

// What others say of themselves, for a terminal: control characters, and bytes that are no UTF-8, as \x1b.
std::string printable(std::string_view text);

// Large messages come and go all the time: the process keeps memory that it has had.
void keepLargeBlocks();

}  // namespace cohort
