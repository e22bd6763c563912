// One file from an address, by libcurl. Private to fetch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "fetch/fetch.h"

namespace cohort {

struct Download {
  std::string address;         // http, https or file
  std::filesystem::path part;  // what is there already is asked for no more
  std::string name;            // for the observer
  std::uint64_t limit = 0;     // bytes; a server that sends more is wrong
};

// Fills `part` to its end. A connection that breaks is made again, as long as each gets further than those before. Unavailable
// (a clause) where the server cannot be reached or does not have the file; `part` then keeps what came. Damaged where the
// file is longer than the limit; IoError where `part` cannot be written.
void download(const Download& what, FetchObserver& observer);

}  // namespace cohort
