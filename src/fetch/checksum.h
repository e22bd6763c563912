// MD5 and SHA-256, by OpenSSL. Private to fetch.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <openssl/evp.h>

#include "fetch/recipe.h"

namespace cohort {

enum class DigestKind { Md5, Sha256 };

class Digest {
 public:
  explicit Digest(DigestKind kind);
  void add(std::span<const std::byte> bytes);
  // Once, at the end: small hexadecimal digits.
  std::string hex();

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// Of the bytes as they are on the disk.
std::string digestOfFile(const std::filesystem::path& path, DigestKind kind);

// What is wrong with the contents of the file at `path`, plain or gzipped, as a clause; empty: nothing.
std::string faultOf(const std::filesystem::path& path, const KnownFile& expected);

}  // namespace cohort
