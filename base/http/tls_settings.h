#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/tls/tls_files.h"

namespace ampd::http {

// The TLS settings of a listener's new connections: TLS 1.3, with the certificate, key and CA of some files. Each
// connection does a whole handshake, because a resumed session would skip the check of the client's certificate.
// Thread-safe.
class TlsSettings {
 public:
  // Reads the files. INVALID_ARGUMENT (BAD_TLS_FILES) if they do not fit together. With `files.ca`, clients are asked
  // for a certificate, and one that they show must be of that CA. `needs_client_certificate`: they must show one.
  static absl::StatusOr<std::unique_ptr<TlsSettings>> Read(const TlsFiles& files, bool needs_client_certificate);

  // Reads the files again if they have changed. Call it once a second. If they do not fit together, because only one of
  // them has been replaced so far, the settings stay those of before.
  void Refresh();

  std::shared_ptr<boost::asio::ssl::context> Current() const;

 private:
  struct Contents {
    std::string certificate, key, ca;
    bool operator==(const Contents&) const = default;
  };

  TlsSettings(TlsFiles files, bool needs_client_certificate)
      : files_(std::move(files)), needs_client_certificate_(needs_client_certificate) {}
  absl::StatusOr<Contents> ReadAll() const;
  absl::Status Use(Contents contents);

  const TlsFiles files_;
  const bool needs_client_certificate_;
  mutable absl::Mutex mutex_;
  Contents contents_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<boost::asio::ssl::context> current_ ABSL_GUARDED_BY(mutex_);
};

// The certificates that the client of a connection has shown, its own first, as a PEM text; empty if it showed none.
std::string ClientCertificates(SSL* connection);

}  // namespace ampd::http
