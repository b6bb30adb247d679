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

// The TLS settings of a listener's new connections: TLS 1.3, with a certificate, a key and a CA from files. Each
// connection does a whole handshake, because a resumed session would skip the check of the client's certificate.
// Thread-safe.
class TlsSettings {
 public:
  // Reads the files. INVALID_ARGUMENT (BAD_TLS_FILES) if they do not fit together. If `files.ca` is set, each client is
  // asked for a certificate, and one that this CA did not issue is refused. If `needs_client_certificate`, a client
  // without a certificate is refused too.
  static absl::StatusOr<std::unique_ptr<TlsSettings>> Read(const TlsFiles& files, bool needs_client_certificate);

  // Reads the files again if they have changed. Call it once a second. If the files do not fit together, because only
  // one of them has been replaced so far, the settings do not change.
  void Refresh();

  std::shared_ptr<boost::asio::ssl::context> Current() const;

 private:
  TlsSettings(TlsFiles files, bool needs_client_certificate)
      : files_(std::move(files)), needs_client_certificate_(needs_client_certificate) {}
  absl::Status Use(TlsTexts texts);

  const TlsFiles files_;
  const bool needs_client_certificate_;
  mutable absl::Mutex mutex_;
  TlsTexts texts_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<boost::asio::ssl::context> current_ ABSL_GUARDED_BY(mutex_);
};

// Returns the certificates that a connection's client has presented, its own first, as a PEM text; empty if it
// presented none.
std::string ClientCertificates(SSL* connection);

}  // namespace ampd::http
