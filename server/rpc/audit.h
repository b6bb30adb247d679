#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
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

// Decides which calls get an entry in the audit log: those that change something, whatever their result, and those that
// were refused because of who made them. Of the refused ones, at most kMaxRefused a second, so that nobody can fill the
// disk with them. Thread-safe.
class Audit {
 public:
  static constexpr int kMaxRefused = 50;

  // `log` may be null: no entries. Both outlive this object.
  Audit(AuditLog* log, const Guard* guard) : log_(log), guard_(guard) {}

  void Finished(const grpc::ServerContextBase& context, std::string_view method, const std::string& object,
                const absl::Status& status);

 private:
  // Counts a refused call. Returns false if there were too many in this second; otherwise sets `num_left_out` to how
  // many were left out before.
  bool TakeRefused(absl::Duration now, int64_t* num_left_out);

  AuditLog* const log_;
  const Guard* const guard_;
  absl::Mutex mutex_;
  absl::Duration second_ ABSL_GUARDED_BY(mutex_);  // When the present second began, since boot.
  int num_refused_ ABSL_GUARDED_BY(mutex_) = 0;    // In it.
  int64_t num_left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ampd::server
