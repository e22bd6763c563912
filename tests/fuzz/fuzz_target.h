// For tests only: what the fuzz targets share.
//
// The property of every target: a parser takes any input, or refuses it with a UsageError or an IoError whose sentence names
// the file. Any other exception leaves LLVMFuzzerTestOneInput and so counts as a crash, as do findings of the sanitizers, leaks, and
// more memory or time than libFuzzer is told to allow.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t maxSize);
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize, unsigned seed);
}

namespace cohort {

[[noreturn]] inline void failFuzzing(std::string_view what) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

inline void requireNamed(std::string_view sentence, std::string_view name) {
  if (sentence.find(name) != std::string_view::npos) return;
  failFuzzing(std::string("The sentence does not name ").append(name).append(": ").append(sentence));
}

// Runs `parse`; returns whether it took its input. `name` is what a refusal must name.
template <class Parse>
bool isAccepted(std::string_view name, Parse&& parse) {
  try {
    parse();
    return true;
  } catch (const UsageError& error) {
    requireNamed(error.what(), name);
  } catch (const IoError& error) {
    requireNamed(error.what(), name);
  }
  return false;
}

// A file in memory, for parsers that take a path: no disk is worn out by millions of inputs.
class InputFile {
 public:
  explicit InputFile(std::span<const std::uint8_t> bytes)
      : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
    if (descriptor_ < 0) failFuzzing("memfd_create fails");
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) failFuzzing("the input cannot be written");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

inline std::string_view textOf(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Mutates an input, then lets `repair` set its checksums right, but for one in eight: behind a wrong checksum no parser
// looks at anything.
template <class Repair>
std::size_t mutateAndRepair(std::span<std::uint8_t> room, std::size_t size, unsigned seed, Repair&& repair) {
  size = LLVMFuzzerMutate(room.data(), size, room.size());
  if (seed % 8 != 0) repair(room.first(size));
  return size;
}

}  // namespace cohort
