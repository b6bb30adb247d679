#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ampd {

// The files with which a server or a client makes TLS connections. All are in PEM form.
struct TlsFiles {
  std::string ca;           // Certificates of the CAs that may issue the peer's certificate.
  std::string certificate;  // This side's certificate, followed by the intermediate certificates up to its CA.
  std::string key;          // The private key of this side's certificate.

  bool operator==(const TlsFiles&) const = default;
  bool empty() const { return ca.empty() && certificate.empty() && key.empty(); }
};

// The names of the program's options for these files, for messages.
struct TlsFileOptions {
  const char* ca = "--ca";
  const char* certificate = "--cert";
  const char* key = "--key";
};

// Checks the files. Returns INVALID_ARGUMENT (BAD_TLS_FILES), with a message for the operator that names the file, if:
//   * a file is missing, cannot be read, or has no certificate or key;
//   * the key can be read by users other than its owner and group, or changed by users other than its owner;
//   * the key does not belong to the certificate;
//   * the certificate is not valid now.
// `needs_certificate`: whether certificate and key are required; a client can do without them.
absl::Status CheckTlsFiles(const TlsFiles& files, bool needs_certificate, const TlsFileOptions& options = {});

// Checks the files of a server whose clients need no certificate: `files.ca` may be empty, but certificate and key are
// required. Returns the errors of CheckTlsFiles.
absl::Status CheckServerFiles(const TlsFiles& files, const TlsFileOptions& options);

// The contents of TlsFiles.
struct TlsTexts {
  std::string ca, certificate, key;
  bool operator==(const TlsTexts&) const = default;
};

// Reads the files; the text of a file without a name is empty. INVALID_ARGUMENT (BAD_TLS_FILES) if one cannot be read,
// or if they do not fit together: the CA file has no certificate, or the key is not the certificate's. Files do not fit
// together for a moment while an operator replaces first one file and then the other.
absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files);

// Returns the time at which the certificate of the file expires. If the file has several certificates, returns the
// earliest of these times. INVALID_ARGUMENT (BAD_TLS_FILES) if the file cannot be read or has no certificate.
absl::StatusOr<absl::Time> CertificateExpiry(const std::string& path);

}  // namespace ampd
