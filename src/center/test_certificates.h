// For tests only: certificates and keys out of PEM texts, and into them.
#pragma once

#include <cstddef>
#include <string>

#include <gtest/gtest.h>
#include <openssl/pem.h>

#include "center/openssl_objects.h"

namespace cohort {

inline OpensslBio reading(const std::string& pem) {
  return OpensslBio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}
inline OpensslCertificate certificateOf(const std::string& pem) {
  return OpensslCertificate(PEM_read_bio_X509(reading(pem).get(), nullptr, nullptr, nullptr));
}
inline OpensslKey keyOf(const std::string& pem) {
  return OpensslKey(PEM_read_bio_PrivateKey(reading(pem).get(), nullptr, nullptr, nullptr));
}
template <class Write>
std::string written(Write&& write) {
  const OpensslBio bio(BIO_new(BIO_s_mem()));
  EXPECT_EQ(write(bio.get()), 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}
inline std::string pemOf(X509* certificate) {
  return written([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}
inline std::string pemOf(EVP_PKEY* key) {
  return written([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

}  // namespace cohort
