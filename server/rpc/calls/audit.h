#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/trace_context.h"
#include "server/audit/audit_log.h"
#include "server/rpc/calls/guard.h"

namespace ampd::server {

// Returns the object that a request names: a job, an artifact, a worker or a token. Empty if the request names none.
template <typename Request>
std::string ObjectOf(const Request& request) {
  if constexpr (requires { request.id(); }) {
    return request.id();
  } else if constexpr (requires { request.name(); }) {
    return request.name();
  } else if constexpr (requires { request.spec().name(); }) {
    return request.spec().name();
  } else {
    return "";
  }
}

// Whether the request is a dry run, which only checks whether the request would be accepted.
template <typename Request>
bool IsDryRun(const Request& request) {
  if constexpr (requires { request.validate_only(); }) {
    return request.validate_only();
  } else {
    return false;
  }
}

// The caller of a method, its address, and the call's trace, as they appear in the audit log.
struct AuditCaller {
  std::string name;
  std::string address;
  TraceContext trace;  // The server's span for the call.
};

// Decides which calls get an entry in the audit log: calls that change something, whatever their result, and calls that
// were refused because of who made them. If the same call fails again within a minute, it gets no entry. There are at
// most kMaxFailed entries of failed calls a second. Therefore neither a client that retries nor an attacker can push
// other entries out of the log. Thread-safe.
class Audit {
 public:
  static constexpr int kMaxFailed = 10;

  // `log` may be null; then there are no entries. `log` and `guard` must outlive this object.
  Audit(AuditLog* log, const Guard* guard) : log_(log), guard_(guard) {}

  // Returns the caller of a call, with a new span for the call. Call this function only once per call, when the call
  // begins: a second result would have another span, and the caller's token may expire before the call ends.
  AuditCaller CallerOf(const grpc::ServerContextBase& context) const;

  // Adds an entry for a finished call, if it needs one. `is_dry_run`: the call was a dry run, which changes nothing
  // even if its method normally does.
  void Finished(const AuditCaller& caller, std::string_view method, const std::string& object,
                const absl::Status& status, bool is_dry_run = false);

 private:
  // Counts a failed call. `kind` identifies the caller, the method, the object and the reason. Returns true if the call
  // gets an entry; `num_left_out` is then the number of failed calls without an entry since the previous entry.
  bool TakeFailed(const std::string& kind, absl::Duration now, int64_t* num_left_out);

  AuditLog* const log_;
  const Guard* const guard_;
  absl::Mutex mutex_;
  absl::Duration second_ ABSL_GUARDED_BY(mutex_);  // Time since boot when the present second began.
  int num_failed_ ABSL_GUARDED_BY(mutex_) = 0;     // Entries of failed calls in the present second.
  int64_t num_left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, absl::Duration> recent_ ABSL_GUARDED_BY(mutex_);  // Last entry of each kind, since boot.
};

}  // namespace ampd::server
