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

// Adds an entry to the audit log when the holder of a certificate connects over TLS, at most one a minute for each, so
// that also those are named that make no call. gRPC may report a connection after the log is gone; the object outlives
// it, detached. Thread-safe.
class ConnectionAudit {
 public:
  // `log` may be null: no entries. All live until Detach.
  ConnectionAudit(AuditLog* log, const Grants* grants, const Clock* clock)
      : log_(log), grants_(grants), clock_(clock) {}

  // A client has shown a certificate that an authority of the server has issued. `common_name` is that of the
  // certificate.
  void Connected(const std::string& common_name);
  // From now on nothing is added.
  void Detach();

 private:
  absl::Mutex mutex_;
  AuditLog* log_ ABSL_GUARDED_BY(mutex_);
  const Grants* const grants_;
  const Clock* const clock_;
  std::map<std::string, absl::Duration> recent_ ABSL_GUARDED_BY(mutex_);  // When a name had its last entry.
};

}  // namespace ampd::server
