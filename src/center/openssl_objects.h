// Owners of OpenSSL's objects. Private to center.
#pragma once

#include <memory>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

namespace cohort {

template <auto release>
struct Released {
  template <class Object>
  void operator()(Object* object) const {
    release(object);
  }
};

using OpensslBio = std::unique_ptr<BIO, Released<BIO_free>>;
using OpensslNumber = std::unique_ptr<BIGNUM, Released<BN_free>>;
using OpensslKey = std::unique_ptr<EVP_PKEY, Released<EVP_PKEY_free>>;
using OpensslKeyContext = std::unique_ptr<EVP_PKEY_CTX, Released<EVP_PKEY_CTX_free>>;
using OpensslKeyInfo = std::unique_ptr<PKCS8_PRIV_KEY_INFO, Released<PKCS8_PRIV_KEY_INFO_free>>;
using OpensslCertificate = std::unique_ptr<X509, Released<X509_free>>;
using OpensslExtension = std::unique_ptr<X509_EXTENSION, Released<X509_EXTENSION_free>>;
using OpensslStore = std::unique_ptr<X509_STORE, Released<X509_STORE_free>>;
using OpensslStoreContext = std::unique_ptr<X509_STORE_CTX, Released<X509_STORE_CTX_free>>;

// Forgets, when it goes, the errors that OpenSSL noted while it lived: left there, they would be taken for a failure of
// whatever this thread does with OpenSSL next.
class OpensslErrors {
 public:
  OpensslErrors() { ERR_set_mark(); }
  ~OpensslErrors() { ERR_pop_to_mark(); }
  OpensslErrors(const OpensslErrors&) = delete;
  OpensslErrors& operator=(const OpensslErrors&) = delete;
};

}  // namespace cohort
