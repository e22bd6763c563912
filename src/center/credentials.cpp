#include "center/credentials.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/file_error.h"
#include "center/openssl_objects.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kOthers = 077;
constexpr std::size_t kMostBytes = 64 << 10;  // of a file; ours have less than 2 KiB
constexpr const char* kGroup = "prime256v1";  // what OpenSSL calls P-256
constexpr int kSerialBits = 128;
constexpr std::size_t kNameBytes = 64;  // of a common name (RFC 5280)
constexpr std::time_t kClockDifference = 3600;
constexpr int kDaysValid = 3652;  // ten years

// Texts; empty where OpenSSL fails.

template <class Write>
std::string textOf(Write&& write) {
  const OpensslBio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return {};
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}
std::string textOf(X509* certificate) {
  return textOf([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}
std::string textOf(EVP_PKEY* key) {
  return textOf([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

// Making.

void require(bool isDone) {
  if (isDone) return;
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  throw IoError(fmt::format("OpenSSL cannot make the credentials of a run: {}.",
                            reason == nullptr ? "it gives no reason" : reason));
}

OpensslKey newKey() {
  OpensslKey key(EVP_EC_gen(kGroup));
  require(key != nullptr);
  return key;
}

// Whole characters of UTF-8; names of runs can be any bytes, a certificate's cannot.
std::string commonName(const std::string& runName) {
  std::string name = "cohort ";
  std::span<const char> rest(runName);
  while (!rest.empty()) {
    unsigned long character = 0;
    const int bytes = UTF8_getc(reinterpret_cast<const unsigned char*>(rest.data()),
                                static_cast<int>(std::min<std::size_t>(rest.size(), 4)), &character);
    const bool isText = bytes > 0 && character >= ' ' && character != 0x7f;
    const std::size_t taken = bytes > 0 ? static_cast<std::size_t>(bytes) : 1;
    const std::string_view shown = isText ? std::string_view(rest.data(), taken) : "?";
    if (name.size() + shown.size() > kNameBytes) break;
    name += shown;
    rest = rest.subspan(taken);
  }
  return name;
}

struct Extension {
  int kind;
  std::string value;  // as in OpenSSL's x509v3_config(5)
};

// In this order: the authority's identifier is its subject's, which must be there before.
std::vector<Extension> authorityExtensions() {
  return {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
          {NID_key_usage, "critical,keyCertSign,cRLSign"},
          {NID_subject_key_identifier, "hash"},
          {NID_authority_key_identifier, "keyid:always"}};
}
std::vector<Extension> memberExtensions() {
  return {{NID_basic_constraints, "critical,CA:FALSE"},
          {NID_key_usage, "critical,digitalSignature"},
          {NID_ext_key_usage, "serverAuth,clientAuth"},
          {NID_subject_alt_name, fmt::format("DNS:{}", kRunHostName)},
          {NID_subject_key_identifier, "hash"},
          {NID_authority_key_identifier, "keyid:always"}};
}

// What differs between the two certificates of a run.
struct Subject {
  const char* role;  // as organisational unit: issuer and subject must have different names
  EVP_PKEY* key;
  std::vector<Extension> extensions;
};

void setSerial(X509* certificate) {
  const OpensslNumber serial(BN_new());
  require(serial != nullptr && BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
          BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr);
}

void setNames(X509* certificate, const Subject& subject, const std::string& name, const X509* issuer) {
  X509_NAME* const names = X509_get_subject_name(certificate);
  const auto add = [&](int kind, std::string_view text) {
    require(X509_NAME_add_entry_by_NID(names, kind, MBSTRING_UTF8,
                                       reinterpret_cast<const unsigned char*>(text.data()),
                                       static_cast<int>(text.size()), -1, 0) == 1);
  };
  add(NID_organizationalUnitName, subject.role);
  add(NID_commonName, name);
  require(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1);
}

void addExtensions(X509* certificate, const std::vector<Extension>& extensions, X509* issuer) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  for (const Extension& extension : extensions) {
    const OpensslExtension made(
        X509V3_EXT_nconf_nid(nullptr, &context, extension.kind, extension.value.c_str()));
    require(made != nullptr && X509_add_ext(certificate, made.get(), -1) == 1);
  }
}

// No issuer: it signs itself.
OpensslCertificate newCertificate(const Subject& subject, const std::string& name, X509* issuer,
                                  EVP_PKEY* issuerKey) {
  OpensslCertificate made(X509_new());
  X509* const certificate = made.get();
  require(certificate != nullptr && X509_set_version(certificate, X509_VERSION_3) == 1 &&
          X509_set_pubkey(certificate, subject.key) == 1);
  if (issuer == nullptr) issuer = certificate;
  setSerial(certificate);
  setNames(certificate, subject, name, issuer);
  std::time_t now = std::time(nullptr);
  require(X509_time_adj_ex(X509_getm_notBefore(certificate), 0, -kClockDifference, &now) != nullptr &&
          X509_time_adj_ex(X509_getm_notAfter(certificate), kDaysValid, 0, &now) != nullptr);
  addExtensions(certificate, subject.extensions, issuer);
  require(X509_sign(certificate, issuerKey, EVP_sha256()) > 0);
  return made;
}

// Reading.

[[noreturn]] void refuse(const fs::path& file, std::string_view clause) {
  throw UsageError(fmt::format("{} lets nobody into a run: {}; copy it again from where the run wrote it.",
                               file.string(), clause));
}

std::string readPrivateFile(const fs::path& file) {
  // Without O_NONBLOCK a pipe that nobody writes to would keep us here.
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!opened) throwFileError("open", file, errno);
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) throwFileError("read", file, errno);
  if (!S_ISREG(status.st_mode)) {
    throw UsageError(
        fmt::format("{} is not a file; name the one with the run's credentials.", file.string()));
  }
  if ((status.st_mode & kOthers) != 0) {
    throw UsageError(fmt::format(
        "Other users may use {0}, and so join the run; keep them out with `chmod 600 {0}`.", file.string()));
  }
  std::string text = readWholeFile(opened, file, kMostBytes + 1);
  if (text.size() > kMostBytes) refuse(file, "it is larger than such a file can be");
  return text;
}

struct Block {
  std::string name;
  std::string bytes;  // DER
};

// The next of a PEM text; nothing at its end.
std::optional<Block> nextBlock(BIO* text, const fs::path& file) {
  const auto free = [](auto* memory) { OPENSSL_free(memory); };
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* bytes = nullptr;
  long size = 0;
  if (PEM_read_bio(text, &name, &header, &bytes, &size) != 1) {
    if (ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) return std::nullopt;
    refuse(file, "a block in it is broken");
  }
  const std::unique_ptr<char, decltype(free)> ownedName(name, free);
  const std::unique_ptr<char, decltype(free)> ownedHeader(header, free);
  const std::unique_ptr<unsigned char, decltype(free)> ownedBytes(bytes, free);
  // A header says how a block is encrypted; ours are not.
  if (*header != '\0') refuse(file, "a block in it is encrypted");
  return Block{name, {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)}};
}

// By one of OpenSSL's d2i functions, which must take all bytes; null where it does not.
template <class Owner, class Parse>
Owner parsed(const Block& block, Parse&& parse) {
  const auto* next = reinterpret_cast<const unsigned char*>(block.bytes.data());
  const unsigned char* const end = next + block.bytes.size();
  Owner object(parse(nullptr, &next, static_cast<long>(block.bytes.size())));
  return next == end ? std::move(object) : nullptr;
}

OpensslCertificate certificateIn(const Block& block) {
  return parsed<OpensslCertificate>(block, d2i_X509);
}

// Null too where it is of another kind than ours: checking some of those takes very long.
OpensslKey keyIn(const Block& block) {
  const auto info = parsed<OpensslKeyInfo>(block, d2i_PKCS8_PRIV_KEY_INFO);
  OpensslKey key(info == nullptr ? nullptr : EVP_PKCS82PKEY(info.get()));
  std::array<char, 32> group{};
  if (key == nullptr || EVP_PKEY_is_a(key.get(), "EC") != 1 ||
      EVP_PKEY_get_group_name(key.get(), group.data(), group.size(), nullptr) != 1 ||
      std::string_view(group.data()) != kGroup) {
    return nullptr;
  }
  // A block holds the secret number and, beside it, the public point that follows from it.
  const OpensslKeyContext context(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  return context != nullptr && EVP_PKEY_check(context.get()) == 1 ? std::move(key) : nullptr;
}

struct Parts {
  OpensslCertificate authority;
  OpensslCertificate certificate;
  OpensslKey key;
};

Parts partsOf(const std::string& text, const fs::path& file) {
  const OpensslBio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  if (bio == nullptr) throwFileError("read", file, ENOMEM);
  Parts parts;
  const auto take = [&](auto& part, auto read) {
    part = std::move(read);
    if (part == nullptr) refuse(file, "a block in it is broken");
  };
  while (const std::optional<Block> block = nextBlock(bio.get(), file)) {
    if (block->name == PEM_STRING_X509 && parts.authority == nullptr) {
      take(parts.authority, certificateIn(*block));
    } else if (block->name == PEM_STRING_X509 && parts.certificate == nullptr) {
      take(parts.certificate, certificateIn(*block));
    } else if (block->name == PEM_STRING_PKCS8INF && parts.key == nullptr) {
      take(parts.key, keyIn(*block));
    } else {
      refuse(file, "it holds more than two certificates and a private key");
    }
  }
  if (parts.authority == nullptr) refuse(file, "it holds no certificates");
  if (parts.certificate == nullptr) refuse(file, "it holds one certificate instead of two");
  if (parts.key == nullptr) refuse(file, "it holds no private key");
  return parts;
}

// 0 where the certificate is good for both ends of a connection; otherwise why not, X509_V_ERR_….
int faultOf(const Parts& parts) {
  const OpensslStore store(X509_STORE_new());
  if (store == nullptr || X509_STORE_add_cert(store.get(), parts.authority.get()) != 1) {
    return X509_V_ERR_OUT_OF_MEM;
  }
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    const OpensslStoreContext context(X509_STORE_CTX_new());
    if (context == nullptr ||
        X509_STORE_CTX_init(context.get(), store.get(), parts.certificate.get(), nullptr) != 1 ||
        X509_STORE_CTX_set_purpose(context.get(), purpose) != 1) {
      return X509_V_ERR_OUT_OF_MEM;
    }
    X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(context.get());
    X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);
    if (X509_VERIFY_PARAM_set1_host(rules, kRunHostName, 0) != 1) return X509_V_ERR_OUT_OF_MEM;
    if (X509_verify_cert(context.get()) == 1) continue;
    const int fault = X509_STORE_CTX_get_error(context.get());
    return fault == X509_V_OK ? X509_V_ERR_UNSPECIFIED : fault;
  }
  return X509_V_OK;
}

void requireSigned(const Parts& parts, const fs::path& file) {
  const int fault = faultOf(parts);
  switch (fault) {
    case X509_V_OK:
      return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      throw UsageError(
          fmt::format("The certificate in {} has expired; make new credentials for the run.", file.string()));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      throw UsageError(
          fmt::format("The certificate in {} is not valid yet; set this machine's clock.", file.string()));
    case X509_V_ERR_OUT_OF_MEM:
      throwFileError("check", file, ENOMEM);
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      refuse(file, "its certificate is not signed by its authority");
    default:
      refuse(file,
             fmt::format("its certificate is not one for a run ({})", X509_verify_cert_error_string(fault)));
  }
}

}  // namespace

Credentials makeCredentials(const std::string& runName) {
  const OpensslErrors errors;
  const std::string name = commonName(runName);
  const OpensslKey authorityKey = newKey();
  const OpensslKey key = newKey();
  const OpensslCertificate authority =
      newCertificate({.role = "authority", .key = authorityKey.get(), .extensions = authorityExtensions()},
                     name, nullptr, authorityKey.get());
  const OpensslCertificate certificate =
      newCertificate({.role = "member", .key = key.get(), .extensions = memberExtensions()}, name,
                     authority.get(), authorityKey.get());
  Credentials made{.authority = textOf(authority.get()),
                   .certificate = textOf(certificate.get()),
                   .key = textOf(key.get())};
  require(!made.authority.empty() && !made.certificate.empty() && !made.key.empty());
  return made;
}

void writeCredentials(const fs::path& file, const Credentials& credentials) {
  AtomicFile out(file, kOwnerOnly);
  out.write(credentials.authority + credentials.certificate + credentials.key);
  out.commit();
}

Credentials readCredentials(const fs::path& file) {
  const OpensslErrors errors;
  const Parts parts = partsOf(readPrivateFile(file), file);
  if (X509_check_private_key(parts.certificate.get(), parts.key.get()) != 1) {
    refuse(file, "its key does not belong to its certificate");
  }
  requireSigned(parts, file);
  // Written anew, so that nobody reads anything else out of the texts than what was checked.
  Credentials read{.authority = textOf(parts.authority.get()),
                   .certificate = textOf(parts.certificate.get()),
                   .key = textOf(parts.key.get())};
  if (read.authority.empty() || read.certificate.empty() || read.key.empty())
    throwFileError("check", file, ENOMEM);
  return read;
}

}  // namespace cohort
