// Private to data. A whole file as memory: its pages come from the disk when they are read, and the system may take them
// back.
//
// Never changes: any number of threads may read. The file must not be cut while it is mapped: reading what is gone ends the
// process (SIGBUS).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace cohort {

class MappedFile {
 public:
  // IoError that names the file where it cannot be read.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile& operator=(MappedFile&&) = delete;

  std::string_view contents() const { return {begin_, size_}; }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(begin_, size_)); }
  // Asks the system to bring the whole file into memory, from front to back, while others compute. Only advice.
  void readAhead() const;

 private:
  const char* begin_ = nullptr;  // nothing for an empty file
  std::size_t size_ = 0;
};

}  // namespace cohort
