// Takes files out of a tar archive, plain or gzipped. Private to fetch.
//
//   archive := member* zeros
//   member  := header (512 bytes) contents, padded with zeros to a multiple of 512
//
// Only regular files are ever written; links, devices and extension headers are passed over. A name that is absolute or has
// a .. in it makes the whole archive wrong.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace cohort {

// Called for each regular file with its name in the archive: where to write it, or nothing to pass it over.
using TarPlace = std::function<std::optional<std::filesystem::path>(const std::string& member)>;

// Damaged (a clause) where the archive is no such archive or cut off; IoError where a file cannot be written.
void unpackTar(const std::filesystem::path& archive, const TarPlace& place);

}  // namespace cohort
