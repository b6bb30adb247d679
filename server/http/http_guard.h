#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/http/router.h"
#include "server/access/identity.h"
#include "server/monitoring/call_observer.h"
#include "server/rpc/calls/audit.h"
#include "server/rpc/calls/call_limits.h"
#include "server/rpc/calls/credentials.h"

namespace ampd::server {

// The access check before every page of the HTTP listener; Guard does the same for calls of the API. It finds out who
// the caller is, and whether the caller may see the page. If the request has a token, the token alone decides;
// otherwise the client certificate of the connection decides. Without either, the caller has no identity, unless the
// server lets all local users do everything. The log and the audit log record refused requests, with the trace from the
// request's traceparent header. Thread-safe.
class HttpGuard {
 public:
  // All objects that the pointers refer to must outlive the guard.
  struct Options {
    Credentials credentials;
    bool trusts_everybody = false;  // Whether a caller without token and certificate counts as an admin.
    CallLimits* limits = nullptr;   // Null: no limits.
    Audit* audit = nullptr;
    CallObserver* observer = nullptr;
  };
  explicit HttpGuard(const Options& options) : options_(options) {}

  // Checks whether the caller may read the page, which is named as in PageRules ("GET /metrics"). Returns the caller's
  // identity, or an empty identity if everybody may read the page. UNAUTHENTICATED or PERMISSION_DENIED if the caller
  // may not read it; RESOURCE_EXHAUSTED (reason RATE_LIMIT) if the caller or its tenant makes too many calls.
  absl::StatusOr<Identity> Check(const http::Request& request, std::string_view page) const;

 private:
  absl::StatusOr<Identity> IdentityOf(const http::Request& request) const;

  const Options options_;
};

// Returns the response to a request that the guard refused, with one line of text: status 401, 403, or 429 with a
// Retry-After header in seconds.
http::Response Refusal(const absl::Status& status);

}  // namespace ampd::server
