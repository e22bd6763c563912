#include "center/credentials.h"

#include <cerrno>
#include <ctime>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_directory.h"
#include "base/test_error.h"
#include "center/openssl_objects.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

using SslContext = std::unique_ptr<SSL_CTX, Released<SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Released<SSL_free>>;

OpensslBio reading(const std::string& pem) {
  return OpensslBio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}
OpensslCertificate certificateOf(const std::string& pem) {
  return OpensslCertificate(PEM_read_bio_X509(reading(pem).get(), nullptr, nullptr, nullptr));
}
OpensslKey keyOf(const std::string& pem) {
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
std::string pemOf(X509* certificate) {
  return written([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}
std::string pemOf(EVP_PKEY* key) {
  return written([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

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

TEST(Credentials, WithAnyByteOfTheCertificateChangedAreRefused) {
  const Credentials made = makeCredentials("a");
  const OpensslCertificate member = certificateOf(made.certificate);
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(member.get(), &bytes);
  ASSERT_GT(size, 0);
  for (int at = 0; at < size; ++at) {
    bytes[at] ^= 1;
    const std::string changed =
        written([&](BIO* bio) { return PEM_write_bio(bio, PEM_STRING_X509, "", bytes, size) > 0 ? 1 : 0; });
    EXPECT_NE(refusalOf(made.authority + changed + made.key), "no error") << "at " << at;
    bytes[at] ^= 1;
  }
  OPENSSL_free(bytes);
}

TEST(Credentials, WithASecretThatDoesNotFitItsPublicPointAreRefused) {
  const Credentials made = makeCredentials("a");
  const OpensslKey key = keyOf(made.key);
  const OpensslKeyInfo info(EVP_PKEY2PKCS8(key.get()));
  unsigned char* bytes = nullptr;
  const int size = i2d_PKCS8_PRIV_KEY_INFO(info.get(), &bytes);
  ASSERT_GT(size, 60);
  bytes[50] ^= 1;  // in the secret, which begins at byte 36
  const std::string changed =
      written([&](BIO* bio) { return PEM_write_bio(bio, PEM_STRING_PKCS8INF, "", bytes, size) > 0 ? 1 : 0; });
  OPENSSL_free(bytes);
  EXPECT_EQ(refusalOf(made.authority + made.certificate + changed), refusalFor("a block in it is broken"));
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
  const std::string plain = joined(forged(
      {}, [](X509* authority) { setExtension(authority, NID_basic_constraints, "critical,CA:FALSE"); }));
  EXPECT_BEGINS(refusalOf(plain), "FILE lets nobody into a run: its certificate is not");
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

std::string serialOf(X509* certificate) {
  const OpensslNumber number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  EXPECT_GT(BN_num_bits(number.get()), 64);
  EXPECT_LE(BN_num_bits(number.get()), 128);
  char* const text = BN_bn2hex(number.get());
  std::string copy = text;
  OPENSSL_free(text);
  return copy;
}

TEST(Credentials, OfOneNameDifferInAllThatIsSecretOrUnique) {
  std::set<std::string> texts;
  std::set<std::string> serials;
  for (int i = 0; i < 2; ++i) {
    const Credentials made = makeCredentials("a");
    for (const std::string& text : {made.authority, made.certificate}) {
      serials.insert(serialOf(certificateOf(text).get()));
      // The keys too, and not just what is signed.
      const OpensslCertificate certificate = certificateOf(text);
      texts.insert(
          written([&](BIO* bio) { return PEM_write_bio_PUBKEY(bio, X509_get0_pubkey(certificate.get())); }));
    }
    texts.insert(made.key);
  }
  EXPECT_EQ(texts.size(), 6u);
  EXPECT_EQ(serials.size(), 4u);
}

std::string textOf(const std::string& pem) {
  const OpensslCertificate certificate = certificateOf(pem);
  return written([&](BIO* bio) { return X509_print_ex(bio, certificate.get(), XN_FLAG_RFC2253, 0); });
}

TEST(Credentials, SayWhatTheyAreFor) {
  const Credentials made = makeCredentials("mnist");
  const std::string authority = textOf(made.authority);
  const std::string member = textOf(made.certificate);
  for (const std::string& text : {authority, member}) {
    EXPECT_MENTIONS(text, "Version: 3 (0x2)");
    EXPECT_MENTIONS(text, "Issuer: CN=cohort mnist,OU=authority");
    EXPECT_MENTIONS(text, "ASN1 OID: prime256v1");
    EXPECT_MENTIONS(text, "Signature Algorithm: ecdsa-with-SHA256");
    EXPECT_MENTIONS(text, "X509v3 Subject Key Identifier");
    EXPECT_MENTIONS(text, "X509v3 Authority Key Identifier");
  }
  EXPECT_MENTIONS(authority, "Subject: CN=cohort mnist,OU=authority");
  EXPECT_MENTIONS(authority, "X509v3 Basic Constraints: critical\n                CA:TRUE, pathlen:0\n");
  EXPECT_MENTIONS(authority, "X509v3 Key Usage: critical\n                Certificate Sign, CRL Sign\n");
  EXPECT_MENTIONS(member, "Subject: CN=cohort mnist,OU=member");
  EXPECT_MENTIONS(member, "X509v3 Basic Constraints: critical\n                CA:FALSE\n");
  EXPECT_MENTIONS(member, "X509v3 Key Usage: critical\n                Digital Signature\n");
  EXPECT_MENTIONS(member, "TLS Web Server Authentication, TLS Web Client Authentication\n");
  EXPECT_MENTIONS(member, "X509v3 Subject Alternative Name: \n                DNS:cohort.run\n");
}

TEST(Credentials, AreValidFromAnHourAgoForTenYears) {
  const std::time_t before = std::time(nullptr);
  const Credentials made = makeCredentials("a");
  const std::time_t after = std::time(nullptr);
  for (const std::string& text : {made.authority, made.certificate}) {
    const OpensslCertificate certificate = certificateOf(text);
    std::tm from{};
    std::tm to{};
    ASSERT_EQ(ASN1_TIME_to_tm(X509_get0_notBefore(certificate.get()), &from), 1);
    ASSERT_EQ(ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &to), 1);
    EXPECT_GE(::timegm(&from), before - 3600);
    EXPECT_LE(::timegm(&from), after - 3600);
    EXPECT_GE(::timegm(&to), before + 3652 * 86400L);
    EXPECT_LE(::timegm(&to), after + 3652 * 86400L);
  }
}

std::string commonNameOf(const std::string& runName) {
  const OpensslCertificate certificate = certificateOf(makeCredentials(runName).certificate);
  X509_NAME* const names = X509_get_subject_name(certificate.get());
  const int at = X509_NAME_get_index_by_NID(names, NID_commonName, -1);
  if (at < 0) return "none";
  const ASN1_STRING* const text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(names, at));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

TEST(Credentials, TakeAnyNameOfARun) {
  EXPECT_EQ(commonNameOf("mnist 1"), "cohort mnist 1");
  EXPECT_EQ(commonNameOf(""), "cohort ");
  EXPECT_EQ(commonNameOf("gr\xc3\xb6\xc3\x9f"
                         "er"),
            "cohort gr\xc3\xb6\xc3\x9f"
            "er");
  EXPECT_EQ(commonNameOf(std::string("a\0\n\x7f\xff"
                                     "b\xc3",
                                     7)),
            "cohort a????b?");
  // No surrogates, and nothing above U+10FFFF.
  EXPECT_EQ(commonNameOf("\xed\xa0\x80."), "cohort ???.");
  EXPECT_EQ(commonNameOf("\xf7\xbf\xbf\xbf."), "cohort ????.");
  EXPECT_EQ(commonNameOf(std::string(100, 'x')), "cohort " + std::string(57, 'x'));
  // 57 bytes are left, and no half of a character.
  EXPECT_EQ(commonNameOf(std::string(56, 'x') + "\xc3\xb6"), "cohort " + std::string(56, 'x'));
}

// One end of a connection. Both ends ask for a certificate of their authority and, at the client's, for the run's name.
Ssl endOf(bool isServer, const Credentials& credentials, bool showsCertificate = true) {
  const SslContext context(SSL_CTX_new(isServer ? TLS_server_method() : TLS_client_method()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  EXPECT_EQ(
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), certificateOf(credentials.authority).get()),
      1);
  if (showsCertificate) {
    EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificateOf(credentials.certificate).get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), keyOf(credentials.key).get()), 1);
  }
  Ssl ssl(SSL_new(context.get()));
  if (isServer) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
    EXPECT_EQ(SSL_set1_host(ssl.get(), kRunHostName), 1);
  }
  return ssl;
}

// Which ends were content: both must be for a connection to be of use.
struct Handshake {
  bool clientIsDone = false;
  bool serverIsDone = false;
};

Handshake handshake(const Ssl& client, const Ssl& server) {
  BIO* clientSide = nullptr;
  BIO* serverSide = nullptr;
  EXPECT_EQ(BIO_new_bio_pair(&clientSide, 0, &serverSide, 0), 1);
  SSL_set_bio(client.get(), clientSide, clientSide);
  SSL_set_bio(server.get(), serverSide, serverSide);
  Handshake result;
  // In turns, until neither end can go on.
  for (int turn = 0; turn < 20; ++turn) {
    result.clientIsDone = SSL_do_handshake(client.get()) == 1;
    result.serverIsDone = SSL_do_handshake(server.get()) == 1;
  }
  ERR_clear_error();
  return result;
}

TEST(CredentialsInTls, HoldersOfOneRunMeet) {
  const Credentials run = makeCredentials("a");
  const Ssl client = endOf(false, run);
  const Ssl server = endOf(true, run);
  const Handshake result = handshake(client, server);
  EXPECT_TRUE(result.clientIsDone);
  EXPECT_TRUE(result.serverIsDone);
  ASSERT_EQ(SSL_write(client.get(), "gradient", 8), 8);
  std::string received(100, '\0');
  ASSERT_EQ(SSL_read(server.get(), received.data(), 100), 8);
  EXPECT_EQ(received.substr(0, 8), "gradient");
}

TEST(CredentialsInTls, ServersRefuseStrangers) {
  const Credentials run = makeCredentials("a");
  // Of another run, whose holder believes this run's authority.
  Credentials stranger = makeCredentials("a");
  stranger.authority = run.authority;
  EXPECT_FALSE(handshake(endOf(false, stranger), endOf(true, run)).serverIsDone);
  EXPECT_FALSE(handshake(endOf(false, run, false), endOf(true, run)).serverIsDone);
}

TEST(CredentialsInTls, ClientsRefuseStrangers) {
  const Credentials run = makeCredentials("a");
  Credentials stranger = makeCredentials("a");
  stranger.authority = run.authority;
  EXPECT_FALSE(handshake(endOf(false, run), endOf(true, stranger)).clientIsDone);
  EXPECT_FALSE(handshake(endOf(false, run), endOf(true, run, false)).clientIsDone);
}

}  // namespace
}  // namespace cohort
