#include "fetch/checksum.h"

#include <array>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "fetch/failure.h"
#include "fetch/inflated_file.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

}  // namespace

Digest::Digest(DigestKind kind) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  const EVP_MD* const algorithm = kind == DigestKind::Md5 ? EVP_md5() : EVP_sha256();
  if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), algorithm, nullptr) != 1) {
    throw IoError("OpenSSL on this machine does not offer the checksum that files are compared by.");
  }
}

void Digest::add(std::span<const std::byte> bytes) {
  COHORT_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "a digest cannot go on");
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  COHORT_CHECK(EVP_DigestFinal_ex(context_.get(), bytes.data(), &size) == 1, "a digest cannot end");
  return fmt::format("{:02x}", fmt::join(bytes.begin(), bytes.begin() + size, ""));
}

std::string digestOfFile(const fs::path& path, DigestKind kind) {
  InflatedFile file(path, InflatedFile::Mode::AsItIs);
  Digest digest(kind);
  std::vector<std::byte> chunk(kChunkBytes);
  while (const std::size_t size = file.read(chunk)) digest.add(std::span(chunk).first(size));
  return digest.hex();
}

std::string faultOf(const fs::path& path, const KnownFile& expected) {
  try {
    InflatedFile file(path, InflatedFile::Mode::InflateGzip);
    Digest digest(DigestKind::Sha256);
    std::vector<std::byte> chunk(kChunkBytes);
    std::uint64_t bytes = 0;
    while (const std::size_t size = file.read(chunk)) {
      bytes += size;
      // A gzip stream can hold a thousand times its own size.
      if (bytes > expected.bytes) return fmt::format("it holds more than {} bytes", expected.bytes);
      digest.add(std::span(chunk).first(size));
    }
    if (bytes < expected.bytes) return fmt::format("it holds {} bytes instead of {}", bytes, expected.bytes);
    const std::string sum = digest.hex();
    return sum == expected.sha256
               ? ""
               : fmt::format("the SHA-256 of its contents is {} instead of {}", sum, expected.sha256);
  } catch (const Damaged& damage) {
    return damage.what();
  }
}

}  // namespace cohort
