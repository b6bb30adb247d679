#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/listen_address.h"
#include "base/tls/tls_files.h"

namespace ampd::http {

// What a listener answered.
struct Page {
  int status = 0;    // Such as 200.
  std::string body;  // At most 64 KiB.
};

// Asks a listener for a page, with GET, and reads the answer until the listener closes the connection. An address of
// all interfaces, such as 0.0.0.0, means this host. If `tls.certificate` and `tls.key` are set, the connection has TLS,
// and the client presents that certificate. The certificate of the listener is not verified, so use this only for
// listeners on this host. Each single step, such as a read, may take `timeout`. UNAVAILABLE, with what went wrong, if
// there is no whole answer; INVALID_ARGUMENT (BAD_TLS_FILES) if the files cannot be used. REQUIRES: SIGPIPE is ignored.
absl::StatusOr<Page> GetPage(const ListenAddress& address, const std::string& path, const TlsFiles& tls,
                             absl::Duration timeout);

}  // namespace ampd::http
