#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"

namespace ampd::server {

struct HttpsRequest {
  std::string url;
  std::string ca_file;                           // CA certificates for checking the host; empty: the system's.
  const std::atomic<bool>* cancelled = nullptr;  // If it becomes true, the request ends within a second or so.
};

// Fetches a document over HTTPS, with libcurl. The response must have status 200 and at most 1 MiB, and arrive within
// 10 s. Follows no redirect. Uses the proxy that the environment names (https_proxy, no_proxy), if any. On failure
// returns UNAVAILABLE with the cause. Blocks. Thread-safe.
absl::StatusOr<std::string> HttpsGet(const HttpsRequest& request);

}  // namespace ampd::server
