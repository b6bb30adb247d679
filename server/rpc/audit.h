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
#include "server/rpc/guard.h"

namespace ampd::server {

// The object that a request names: a job, an artifact, a worker or a token; empty if it names none.
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

// Whether the request only asks whether it would be accepted, as a dry run does.
template <typename Request>
bool IsDryRun(const Request& request) {
  if constexpr (requires { request.validate_only(); }) {
    return request.validate_only();
  } else {
    return false;
  }
}

// Who makes a call, from where, and in which trace, as the audit log has it.
struct AuditCaller {
  std::string name;
  std::string address;
  TraceContext trace;  // The server's span for the call.
};

// Decides which calls get an entry in the audit log: those that change something, whatever their result, and those that
// were refused because of who made them. A call that fails as another did in the minute before gets none, and there are
// at most kMaxFailed entries of failed calls a second, so that neither a client that tries again nor an attacker pushes
// other entries out of the log. Thread-safe.
class Audit {
 public:
  static constexpr int kMaxFailed = 10;

  // `log` may be null: no entries. Both outlive this object.
  Audit(AuditLog* log, const Guard* guard) : log_(log), guard_(guard) {}

  // Who makes the call. Asked once, when the call begins: its token may end before the call does, and each answer has
  // another span.
  AuditCaller CallerOf(const grpc::ServerContextBase& context) const;

  // `is_dry_run`: whether the call changes nothing, whatever its method.
  void Finished(const AuditCaller& caller, std::string_view method, const std::string& object,
                const absl::Status& status, bool is_dry_run = false);

 private:
  // Counts a failed call; `kind`: who failed to do what, and why. Returns false if it gets no entry; otherwise sets
  // `num_left_out` to how many got none since the last one that did.
  bool TakeFailed(const std::string& kind, absl::Duration now, int64_t* num_left_out);

  AuditLog* const log_;
  const Guard* const guard_;
  absl::Mutex mutex_;
  absl::Duration second_ ABSL_GUARDED_BY(mutex_);  // When the present second began, since boot.
  int num_failed_ ABSL_GUARDED_BY(mutex_) = 0;     // In it.
  int64_t num_left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, absl::Duration> recent_ ABSL_GUARDED_BY(mutex_);  // When a call of a kind had its last entry.
};

}  // namespace ampd::server
