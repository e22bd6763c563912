#include "fetch/tar.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "fetch/failure.h"
#include "fetch/inflated_file.h"
#include "fetch/output_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;
using Header = std::array<char, kBlock>;

// A field's text up to its first zero.
std::string_view field(const Header& header, std::size_t at, std::size_t size) {
  const std::string_view text(header.data() + at, size);
  return text.substr(0, text.find('\0'));
}

// Octal digits between spaces.
std::uint64_t octal(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  const auto last = text.find_last_not_of(' ');
  if (first == std::string_view::npos) return 0;
  std::uint64_t value = 0;
  for (const char digit : text.substr(first, last - first + 1)) {
    if (digit < '0' || digit > '7') throw Damaged("a header of its tar archive is not valid");
    value = value * 8 + static_cast<std::uint64_t>(digit - '0');  // at most 12 digits
  }
  return value;
}

// The sum of the header's bytes, its own field counted as spaces.
void requireChecksum(const Header& header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    sum += i >= 148 && i < 156 ? std::uint64_t{' '} : static_cast<unsigned char>(header[i]);
  }
  if (sum != octal(field(header, 148, 8))) throw Damaged("a header of its tar archive is not valid");
}

std::string nameOf(const Header& header) {
  std::string name(field(header, 0, 100));
  const std::string_view prefix = field(header, 345, 155);
  if (field(header, 257, 6) == "ustar" && !prefix.empty()) name = fmt::format("{}/{}", prefix, name);
  const fs::path path(name);
  const bool climbs = std::ranges::find(path, fs::path("..")) != path.end();
  if (name.empty() || path.is_absolute() || climbs) {
    throw Damaged(fmt::format("its tar archive has a file called '{}'", name));
  }
  return name;
}

class TarReader {
 public:
  explicit TarReader(const fs::path& archive) : file_(archive, InflatedFile::Mode::InflateGzip) {}

  // Nothing at the end of the archive.
  bool readHeader(Header& header) {
    const std::size_t size = file_.read(std::as_writable_bytes(std::span(header)));
    if (size != kBlock) throw Damaged("its tar archive is cut off");
    if (std::ranges::all_of(header, [](char c) { return c == 0; })) return false;
    requireChecksum(header);
    return true;
  }

  // The contents of the member whose header was read, to `out` where there is one.
  void readContents(std::uint64_t size, OutputFile* out) {
    std::uint64_t left = (size + kBlock - 1) / kBlock * kBlock;
    std::uint64_t wanted = size;
    while (left > 0) {
      const auto part = std::span(chunk_).first(std::min<std::uint64_t>(left, chunk_.size()));
      if (file_.read(part) != part.size()) throw Damaged("its tar archive is cut off");
      const auto used = part.first(std::min<std::uint64_t>(wanted, part.size()));
      if (out != nullptr) out->write(used);
      wanted -= used.size();
      left -= part.size();
    }
  }

  // Lets gzip compare its checksum. What follows the end of a tar archive is zeros.
  void readToEnd() {
    while (file_.read(chunk_) != 0) {
    }
  }

 private:
  InflatedFile file_;
  std::vector<std::byte> chunk_ = std::vector<std::byte>(256 * kBlock);
};

}  // namespace

void unpackTar(const fs::path& archive, const TarPlace& place) {
  TarReader reader(archive);
  Header header{};
  while (reader.readHeader(header)) {
    const std::string name = nameOf(header);
    const std::uint64_t size = octal(field(header, 124, 12));
    const char type = header[156];
    const bool regular = type == '0' || type == '\0' || type == '7';
    std::optional<fs::path> to;
    if (regular && !name.ends_with('/')) to = place(name);
    if (to) {
      OutputFile out(*to, OutputFile::Mode::New);
      reader.readContents(size, &out);
      out.close();
    } else {
      reader.readContents(size, nullptr);
    }
  }
  reader.readToEnd();
}

}  // namespace cohort
