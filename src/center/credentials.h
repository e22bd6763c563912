// What a process proves with that it belongs to a run, and by which it sees that others do: TLS with certificates on both sides.
//
// Each run has an authority of its own. Whoever holds a certificate of that authority, and its key, belongs to the run; since
// the authority's own key is forgotten at once, the only way in is to be given the file. It holds a secret: only its owner
// may read it. All functions may be called by any threads at once, and leave OpenSSL's list of errors as it was.
#pragma once

#include <filesystem>
#include <string>

namespace cohort {

// The name in the certificate (a dNSName) that clients expect, whatever address they connect to.
inline constexpr const char* kRunHostName = "cohort.run";

// PEM texts.
struct Credentials {
  std::string authority;    // the certificate that others' must be signed by
  std::string certificate;  // signed by it, for servers and clients alike
  std::string key;          // the certificate's private key, PKCS #8, not encrypted

  bool operator==(const Credentials&) const = default;
};

// A new authority and one certificate, valid from an hour ago (clocks differ) for ten years. The name is for people who
// look into the certificates; two calls with the same one let nobody into the other's run. IoError where OpenSSL fails.
Credentials makeCredentials(const std::string& runName);

// One file with the three texts one after the other, whole or not at all, in a folder that exists; mode 0600 from its first
// byte on. IoError where it cannot be written.
void writeCredentials(const std::filesystem::path& file, const Credentials& credentials);

// What writeCredentials wrote, checked: what it returns is what it checked, and nothing else that the file may hold. IoError
// where the file cannot be read; UsageError where other users may use it, a block is missing or broken, the key does
// not belong to the certificate, or the certificate is not signed by the authority, has expired or is not one for a run.
Credentials readCredentials(const std::filesystem::path& file);

}  // namespace cohort
