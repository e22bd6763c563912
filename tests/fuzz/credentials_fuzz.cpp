// Credentials of a run. What is taken is given back in a form that is taken again as it is.
#include <algorithm>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include "center/credentials.h"
#include "center/openssl_objects.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using cohort::Credentials;
using cohort::OpensslBio;

std::span<const std::uint8_t> bytesOf(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

bool read(std::span<const std::uint8_t> bytes, Credentials& credentials) {
  const cohort::InputFile file(bytes);
  // Files in memory are everybody's at first.
  if (::chmod(file.path().c_str(), 0600) != 0) cohort::failFuzzing("the input's mode cannot be set");
  return cohort::isAccepted(file.path(), [&] { credentials = cohort::readCredentials(file.path()); });
}

// Changes what the blocks hold: a change to the text itself is mostly the end of its base64. One of `choice`; nothing where
// there is no block.
std::string changedInside(std::span<const std::uint8_t> text, unsigned choice) {
  const OpensslBio in(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  const OpensslBio out(BIO_new(BIO_s_mem()));
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* bytes = nullptr;
  long size = 0;
  for (unsigned number = 0; PEM_read_bio(in.get(), &name, &header, &bytes, &size) == 1; ++number) {
    std::vector<std::uint8_t> room(bytes, bytes + size);
    if (number == choice % 3) {
      room.resize(room.size() + 64);
      room.resize(LLVMFuzzerMutate(room.data(), static_cast<std::size_t>(size), room.size()));
    }
    PEM_write_bio(out.get(), name, header, room.data(), static_cast<long>(room.size()));
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(bytes);
  }
  char* made = nullptr;
  const long length = BIO_get_mem_data(out.get(), &made);
  return {made, static_cast<std::size_t>(length)};
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Credentials first;
  Credentials again;
  if (!read({data, size}, first)) return 0;
  if (!read(bytesOf(first.authority + first.certificate + first.key), again) || first != again)
    cohort::failFuzzing("Read otherwise the second time.");
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t maxSize,
                                    unsigned seed) {
  const cohort::OpensslErrors errors;
  const std::string changed = seed % 4 == 0 ? "" : changedInside({data, size}, seed / 4);
  if (changed.empty() || changed.size() > maxSize) return LLVMFuzzerMutate(data, size, maxSize);
  std::ranges::copy(changed, data);
  return changed.size();
}
