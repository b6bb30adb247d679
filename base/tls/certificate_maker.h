#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ampd {

// A certificate with its key, both as PEM texts.
struct CertificateAndKey {
  std::string certificate;
  std::string key;
};

// Makes the certificate of a new certificate authority (CA), signed by itself, with a key on the curve P-256. It is
// valid from one minute ago, so that hosts whose clocks are slow accept it, until `validity` from now. INTERNAL if
// OpenSSL fails.
absl::StatusOr<CertificateAndKey> MakeAuthority(const std::string& name, absl::Duration validity);

// The properties of a certificate to issue.
struct CertificateRequest {
  std::string name;                // Common name (CN), at most 64 bytes.
  std::vector<std::string> hosts;  // Host names and IP addresses of a server; empty for the certificate of a client.
  absl::Duration validity;
};

// Makes a certificate with a new key, signed by the authority. INVALID_ARGUMENT if a host is neither a host name nor an
// address, or if the common name is empty or too long.
absl::StatusOr<CertificateAndKey> IssueCertificate(const CertificateAndKey& authority,
                                                   const CertificateRequest& request);

}  // namespace ampd
