#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/listen_address.h"
#include "base/tls/tls_files.h"

namespace ampd::http {

// The response of an HTTP listener.
struct Page {
  int status = 0;    // Such as 200.
  std::string body;  // At most 64 KiB.
};

// Sends a GET request to a listener of this host, and reads the answer until the listener closes the connection. An
// address of all interfaces, such as 0.0.0.0, means this host. If `tls.certificate` and `tls.key` are set, the
// connection has TLS, and the client presents that certificate. The listener's certificate is not verified, so do not
// use this function for other hosts. `timeout` limits each single step, such as a read. Returns UNAVAILABLE, with the
// cause, if no whole answer arrives, and INVALID_ARGUMENT (BAD_TLS_FILES) if the files cannot be used. REQUIRES:
// SIGPIPE is ignored.
absl::StatusOr<Page> GetPage(const ListenAddress& address, const std::string& path, const TlsFiles& tls,
                             absl::Duration timeout);

}  // namespace ampd::http
