#include "center/credentials.h"

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "center/openssl_objects.h"
#include "center/test_certificates.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string joined(const Credentials& credentials) {
  return credentials.authority + credentials.certificate + credentials.key;
}

// What reading a file of this text, with the right mode, says. The file's name is FILE there.
std::string refusalOf(const std::string& text) {
  const TestDirectory directory;
  const fs::path file = directory / "run.pem";
  writeTestFile(file, text);
  fs::permissions(file, fs::perms{0600});
  std::string message = errorOf<UsageError>([&] { readCredentials(file); });
  const std::string name = file.string();
  if (const std::size_t at = message.find(name); at != std::string::npos)
    message.replace(at, name.size(), "FILE");
  return message;
}
std::string refusalFor(const std::string& clause) {
  return "FILE lets nobody into a run: " + clause + "; copy it again from where the run wrote it.";
}

using Change = std::function<void(X509*)>;

// Credentials by an authority whose key was not forgotten, so that its certificates can be changed and signed again.
Credentials forged(const Change& changeMember, const Change& changeAuthority = {}) {
  Credentials credentials = makeCredentials("a");
  const OpensslKey authorityKey(EVP_EC_gen("P-256"));
  const OpensslCertificate authority = certificateOf(credentials.authority);
  const OpensslCertificate member = certificateOf(credentials.certificate);
  X509_set_pubkey(authority.get(), authorityKey.get());
  if (changeAuthority) changeAuthority(authority.get());
  if (changeMember) changeMember(member.get());
  EXPECT_GT(X509_sign(authority.get(), authorityKey.get(), EVP_sha256()), 0);
  EXPECT_GT(X509_sign(member.get(), authorityKey.get(), EVP_sha256()), 0);
  credentials.authority = pemOf(authority.get());
  credentials.certificate = pemOf(member.get());
  return credentials;
}

void removeExtension(X509* certificate, int kind) {
  const int at = X509_get_ext_by_NID(certificate, kind, -1);
  ASSERT_GE(at, 0);
  const OpensslExtension removed(X509_delete_ext(certificate, at));
}
void setExtension(X509* certificate, int kind, const char* value) {
  removeExtension(certificate, kind);
  const OpensslExtension made(X509V3_EXT_nconf_nid(nullptr, nullptr, kind, value));
  ASSERT_NE(made, nullptr);
  ASSERT_EQ(X509_add_ext(certificate, made.get(), -1), 1);
}

TEST(Credentials, AreReadAsTheyWereWritten) {
  const TestDirectory directory;
  const Credentials made = makeCredentials("a");
  writeCredentials(directory / "run.pem", made);
  EXPECT_EQ(readCredentials(directory / "run.pem"), made);
  EXPECT_EQ(readWholeFile(directory / "run.pem"), joined(made));
}

TEST(Credentials, AreTheirOwnersAloneWhateverTheUmask) {
  const TestDirectory directory;
  writeTestFile(directory / "run.pem", "open to all");
  fs::permissions(directory / "run.pem", fs::perms{0666});
  const mode_t before = ::umask(0);
  writeCredentials(directory / "run.pem", makeCredentials("a"));
  ::umask(before);
  EXPECT_EQ(fs::status(directory / "run.pem").permissions(), fs::perms{0600});
}

TEST(Credentials, ThatOthersMayUseAreRefused) {
  const TestDirectory directory;
  const fs::path file = directory / "run.pem";
  writeCredentials(file, makeCredentials("a"));
  for (const unsigned mode : {0644u, 0640u, 0620u, 0601u}) {
    fs::permissions(file, fs::perms{mode});
    EXPECT_EQ(errorOf<UsageError>([&] { readCredentials(file); }),
              "Other users may use " + file.string() +
                  ", and so join the run; keep them out with `chmod 600 " + file.string() + "`.");
  }
  fs::permissions(file, fs::perms{0400});
  EXPECT_NO_THROW(readCredentials(file));
}

TEST(Credentials, ThatAreNoFileAreRefused) {
  const TestDirectory directory;
  EXPECT_EQ(errorOf<IoError>([&] { readCredentials(directory / "none"); }),
            "Cannot open " + (directory / "none").string() + ": No such file or directory.");
  EXPECT_EQ(errorOf<UsageError>([&] { readCredentials(directory.path()); }),
            directory.path().string() + " is not a file; name the one with the run's credentials.");
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_MENTIONS(errorOf<UsageError>([&] { readCredentials(directory / "pipe"); }), "is not a file");
}

TEST(Credentials, AreNotWrittenToAFolderThatIsMissing) {
  const TestDirectory directory;
  EXPECT_MENTIONS(
      errorOf<IoError>([&] { writeCredentials(directory / "none" / "run.pem", makeCredentials("a")); }),
      "No such file or directory");
}

TEST(Credentials, WithMissingBlocksAreRefused) {
  const Credentials made = makeCredentials("a");
  EXPECT_EQ(refusalOf(""), refusalFor("it holds no certificates"));
  EXPECT_EQ(refusalOf(made.key), refusalFor("it holds no certificates"));
  EXPECT_EQ(refusalOf(made.authority + made.key), refusalFor("it holds one certificate instead of two"));
  EXPECT_EQ(refusalOf(made.authority + made.certificate), refusalFor("it holds no private key"));
}

TEST(Credentials, WithOtherBlocksAreRefused) {
  const Credentials made = makeCredentials("a");
  const std::string sentence = refusalFor("it holds more than two certificates and a private key");
  EXPECT_EQ(refusalOf(joined(made) + made.certificate), sentence);
  EXPECT_EQ(refusalOf(joined(made) + made.key), sentence);
  EXPECT_EQ(refusalOf(joined(made) + "-----BEGIN NOTE-----\nYWJj\n-----END NOTE-----\n"), sentence);
}

TEST(Credentials, ThatAreGarbageAreRefused) {
  EXPECT_EQ(refusalOf("no credentials at all\n"), refusalFor("it holds no certificates"));
  EXPECT_EQ(refusalOf(std::string(1000, '\0')), refusalFor("it holds no certificates"));
  EXPECT_EQ(refusalOf(std::string(100'000, 'x')), refusalFor("it is larger than such a file can be"));
  // In the frame of a block.
  for (const char* const name : {"CERTIFICATE", "PRIVATE KEY"}) {
    EXPECT_EQ(refusalOf(fmt::format("-----BEGIN {0}-----\nYWJj\n-----END {0}-----\n", name)),
              refusalFor("a block in it is broken"));
  }
}

TEST(Credentials, CutAnywhereAreRefused) {
  const std::string text = joined(makeCredentials("a"));
  const std::set<std::string> sentences = {
      refusalFor("it holds no certificates"), refusalFor("it holds one certificate instead of two"),
      refusalFor("it holds no private key"), refusalFor("a block in it is broken")};
  // The text without its last line end is still whole.
  for (std::size_t size = 0; size + 1 < text.size(); size += 1 + size % 7) {
    const std::string sentence = refusalOf(text.substr(0, size));
    EXPECT_TRUE(sentences.contains(sentence)) << "of the first " << size << " bytes: " << sentence;
  }
  EXPECT_EQ(refusalOf(text.substr(0, text.size() - 2)), refusalFor("a block in it is broken"));
}

// A block, taken apart.
struct Unframed {
  explicit Unframed(const std::string& pem) {
    char* nameText = nullptr;
    char* header = nullptr;
    unsigned char* data = nullptr;
    long size = 0;
    EXPECT_EQ(PEM_read_bio(reading(pem).get(), &nameText, &header, &data, &size), 1);
    name = nameText;
    bytes.assign(data, data + size);
    OPENSSL_free(nameText);
    OPENSSL_free(header);
    OPENSSL_free(data);
  }
  std::string pem() const {
    return written([&](BIO* bio) {
      return PEM_write_bio(bio, name.c_str(), "", bytes.data(), static_cast<long>(bytes.size())) > 0 ? 1 : 0;
    });
  }

  std::string name;
  std::vector<unsigned char> bytes;
};

TEST(Credentials, WithAnyByteOfACertificateChangedAreRefused) {
  const Credentials made = makeCredentials("a");
  for (std::string Credentials::*const part : {&Credentials::authority, &Credentials::certificate}) {
    Credentials changed = made;
    Unframed block(made.*part);
    for (std::size_t at = 0; at < block.bytes.size(); ++at) {
      block.bytes[at] ^= 1;
      changed.*part = block.pem();
      EXPECT_NE(refusalOf(joined(changed)), "no error") << "at " << at;
      block.bytes[at] ^= 1;
    }
  }
}

TEST(Credentials, WithBytesBehindWhatABlockHoldsAreRefused) {
  const Credentials made = makeCredentials("a");
  for (std::string Credentials::*const part :
       {&Credentials::authority, &Credentials::certificate, &Credentials::key}) {
    Credentials changed = made;
    Unframed block(made.*part);
    block.bytes.push_back(0);
    changed.*part = block.pem();
    EXPECT_EQ(refusalOf(joined(changed)), refusalFor("a block in it is broken"));
  }
}

TEST(Credentials, WithASecretThatDoesNotFitItsPublicPointAreRefused) {
  Credentials changed = makeCredentials("a");
  Unframed block(changed.key);
  ASSERT_GT(block.bytes.size(), 68u);
  block.bytes[50] ^= 1;  // the secret's 32 bytes begin at the 36th
  changed.key = block.pem();
  EXPECT_EQ(refusalOf(joined(changed)), refusalFor("a block in it is broken"));
}

TEST(Credentials, WithAnEncryptedKeyAreRefusedWithoutAskingForAPassword) {
  const Credentials made = makeCredentials("a");
  const OpensslKey key = keyOf(made.key);
  const std::string newer = written([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key.get(), EVP_aes_128_cbc(), "abcd", 4, nullptr, nullptr);
  });
  EXPECT_EQ(refusalOf(made.authority + made.certificate + newer),
            refusalFor("it holds more than two certificates and a private key"));
  const std::string older = written([&](BIO* bio) {
    return PEM_write_bio_PrivateKey_traditional(bio, key.get(), EVP_aes_128_cbc(),
                                                reinterpret_cast<const unsigned char*>("abcd"), 4, nullptr,
                                                nullptr);
  });
  EXPECT_EQ(refusalOf(made.authority + made.certificate + older), refusalFor("a block in it is encrypted"));
}

TEST(Credentials, WithAKeyOfAnotherKindAreRefused) {
  const Credentials made = makeCredentials("a");
  for (const char* group : {"P-384", "secp256k1"}) {
    const OpensslKey key(EVP_EC_gen(group));
    EXPECT_EQ(refusalOf(made.authority + made.certificate + pemOf(key.get())),
              refusalFor("a block in it is broken"));
  }
  const OpensslKey edwards(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  EXPECT_EQ(refusalOf(made.authority + made.certificate + pemOf(edwards.get())),
            refusalFor("a block in it is broken"));
}

// The runs have the same name: it is no secret, and must not help.
TEST(Credentials, MixedFromTwoRunsAreRefused) {
  const Credentials one = makeCredentials("a");
  const Credentials other = makeCredentials("a");
  EXPECT_EQ(refusalOf(one.authority + one.certificate + other.key),
            refusalFor("its key does not belong to its certificate"));
  EXPECT_EQ(refusalOf(one.authority + other.certificate + other.key),
            refusalFor("its certificate is not signed by its authority"));
}

TEST(Credentials, SignedByTheirOwnKeyAreRefused) {
  const Credentials made = makeCredentials("a");
  const OpensslCertificate member = certificateOf(made.certificate);
  const OpensslKey key = keyOf(made.key);
  const std::string sentence = refusalFor("its certificate is not signed by its authority");
  // In the authority's name, which is no secret either.
  ASSERT_GT(X509_sign(member.get(), key.get(), EVP_sha256()), 0);
  EXPECT_EQ(refusalOf(made.authority + pemOf(member.get()) + made.key), sentence);
  // In their own.
  removeExtension(member.get(), NID_authority_key_identifier);
  X509_set_issuer_name(member.get(), X509_get_subject_name(member.get()));
  ASSERT_GT(X509_sign(member.get(), key.get(), EVP_sha256()), 0);
  EXPECT_EQ(refusalOf(made.authority + pemOf(member.get()) + made.key), sentence);
}

TEST(Credentials, WhoseAuthorityIsNotOneAreRefused) {
  const std::vector<Change> changes = {
      [](X509* authority) { setExtension(authority, NID_basic_constraints, "critical,CA:FALSE"); },
      [](X509* authority) { setExtension(authority, NID_key_usage, "critical,digitalSignature"); },
      [](X509* authority) { removeExtension(authority, NID_key_usage); }};
  for (const Change& change : changes) {
    EXPECT_BEGINS(refusalOf(joined(forged({}, change))),
                  "FILE lets nobody into a run: its certificate is not");
  }
  EXPECT_EQ(refusalOf(joined(forged({}))), "no error");
}

TEST(Credentials, OutOfTheirTimeAreRefused) {
  const auto moved = [](long seconds) {
    return [seconds](X509* certificate) {
      X509_gmtime_adj(X509_getm_notBefore(certificate), seconds - 1000);
      X509_gmtime_adj(X509_getm_notAfter(certificate), seconds + 1000);
    };
  };
  const std::string expired = "The certificate in FILE has expired; make new credentials for the run.";
  EXPECT_EQ(refusalOf(joined(forged(moved(-2000)))), expired);
  EXPECT_EQ(refusalOf(joined(forged({}, moved(-2000)))), expired);
  EXPECT_EQ(refusalOf(joined(forged(moved(2000)))),
            "The certificate in FILE is not valid yet; set this machine's clock.");
  EXPECT_EQ(refusalOf(joined(forged(moved(0)))), "no error");
}

TEST(Credentials, ForAnotherUseAreRefused) {
  const std::string beginning = "FILE lets nobody into a run: its certificate is not one for a run (";
  const std::vector<Change> changes = {
      [](X509* member) { setExtension(member, NID_ext_key_usage, "serverAuth"); },
      [](X509* member) { setExtension(member, NID_ext_key_usage, "clientAuth"); },
      [](X509* member) { setExtension(member, NID_subject_alt_name, "DNS:example.org"); },
      [](X509* member) { setExtension(member, NID_key_usage, "critical,dataEncipherment"); }};
  for (const Change& change : changes) EXPECT_BEGINS(refusalOf(joined(forged(change))), beginning);
}

TEST(Credentials, LeaveNoErrorsInOpenssl) {
  ERR_clear_error();
  EXPECT_NE(refusalOf("-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n"), "no error");
  EXPECT_EQ(refusalOf(joined(makeCredentials("a"))), "no error");
  EXPECT_EQ(ERR_peek_error(), 0u);
}

}  // namespace
}  // namespace cohort
