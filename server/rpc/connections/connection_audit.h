#pragma once

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/access/grants.h"
#include "server/audit/audit_log.h"

namespace ampd::server {

// Adds an entry to the audit log when the holder of a certificate connects over TLS, at most one a minute for each
// holder. The log then also names holders that make no call. gRPC may report a connection after the log was destroyed,
// so this object outlives the log and is detached from it first. Thread-safe.
class ConnectionAudit {
 public:
  // `log` may be null; then there are no entries. All arguments must live until Detach.
  ConnectionAudit(AuditLog* log, const Grants* grants, const Clock* clock)
      : log_(log), grants_(grants), clock_(clock) {}

  // Called when a client has shown a certificate that one of the server's trusted authorities issued. `common_name` is
  // the certificate's common name.
  void Connected(const std::string& common_name);
  // After this call, no entries are added.
  void Detach();

 private:
  absl::Mutex mutex_;
  AuditLog* log_ ABSL_GUARDED_BY(mutex_);
  const Grants* const grants_;
  const Clock* const clock_;
  std::map<std::string, absl::Duration> recent_ ABSL_GUARDED_BY(mutex_);  // Last entry of each name, since boot.
};

}  // namespace ampd::server
