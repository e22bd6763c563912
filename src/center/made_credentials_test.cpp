// What makeCredentials puts into certificates, and what TLS makes of them.
#include <ctime>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/test_error.h"
#include "center/credentials.h"
#include "center/openssl_objects.h"
#include "center/test_certificates.h"

namespace cohort {
namespace {

std::string serialOf(X509* certificate) {
  const OpensslNumber number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  EXPECT_GT(BN_num_bits(number.get()), 64);
  EXPECT_LE(BN_num_bits(number.get()), 128);
  char* const text = BN_bn2hex(number.get());
  std::string copy = text;
  OPENSSL_free(text);
  return copy;
}

TEST(MadeCredentials, OfOneNameDifferInAllThatIsSecretOrUnique) {
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

TEST(MadeCredentials, SayWhatTheyAreFor) {
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

TEST(MadeCredentials, AreValidFromAnHourAgoForTenYears) {
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

TEST(MadeCredentials, TakeAnyNameOfARun) {
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

using SslContext = std::unique_ptr<SSL_CTX, Released<SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Released<SSL_free>>;

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
