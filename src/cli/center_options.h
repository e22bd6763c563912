// Addresses of a center. Private to cli.
#pragma once

#include <string>
#include <vector>

namespace cohort {

// Whether only this machine reaches it: a loopback address or a socket in the file system.
bool isPrivateAddress(const std::string& address);

// "HOST:PORT,HOST:PORT" -> each; UsageError where one is none.
std::vector<std::string> parseAddresses(const std::string& text, const std::string& flag);

// Large messages come and go all the time: the process keeps memory that it has had.
void keepLargeBlocks();

}  // namespace cohort
