#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/http/router.h"
#include "server/access/identity.h"
#include "server/monitoring/call_observer.h"
#include "server/rpc/audit.h"
#include "server/rpc/call_limits.h"
#include "server/rpc/credentials.h"

namespace ampd::server {

// The access check before every page of the HTTP listener, as Guard is the one before every call of the API: who asks,
// and may it see the page? If the request has a token, the token alone decides; otherwise the certificate of its
// connection does. Without either, the caller has no identity, unless the server lets all local users do everything.
// Refused requests are logged, and are in the audit log, with the trace that their header traceparent names.
// Thread-safe.
class HttpGuard {
 public:
  // What is pointed to outlives the guard.
  struct Options {
    Credentials credentials;
    bool trusts_everybody = false;  // Whether a request without token and certificate is one of an admin.
    CallLimits* limits = nullptr;   // Null: callers have no limits.
    Audit* audit = nullptr;
    CallObserver* observer = nullptr;
  };
  explicit HttpGuard(const Options& options) : options_(options) {}

  // Checks whether the caller may read the page, named as in PageRules ("GET /metrics"). Returns who the caller is, or
  // an empty identity if everybody may read the page. UNAUTHENTICATED or PERMISSION_DENIED if the caller may not, and
  // RESOURCE_EXHAUSTED (reason RATE_LIMIT) if the caller or its tenant calls too often.
  absl::StatusOr<Identity> Check(const http::Request& request, std::string_view page) const;

 private:
  absl::StatusOr<Identity> IdentityOf(const http::Request& request) const;

  const Options options_;
};

// The answer to a request that the guard refused: 401, 403, or 429 with Retry-After in seconds; with one line of text.
http::Response Refusal(const absl::Status& status);

}  // namespace ampd::server
