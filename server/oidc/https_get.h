#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"

namespace ampd::server {

struct HttpsRequest {
  std::string url;
  std::string ca_file;  // CA certificates that the host is checked against; empty: the system's.
  const std::atomic<bool>* cancelled = nullptr;  // Ends the request within a second or so.
};

// Fetches a document over HTTPS, with libcurl. The answer must have status 200 and at most 1 MiB, and come within 10 s.
// Follows no redirect. Uses the proxy that the environment names (https_proxy, no_proxy), if any. UNAVAILABLE with what
// went wrong otherwise. Blocks. Thread-safe.
absl::StatusOr<std::string> HttpsGet(const HttpsRequest& request);

}  // namespace ampd::server
