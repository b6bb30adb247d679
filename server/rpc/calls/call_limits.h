#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/access/identity.h"
#include "server/access/limits.h"

namespace ampd::server {

// Limits the rate of calls and the number of open streams, for each caller and for all callers of a tenant together. A
// call counts for a tenant only if its caller belongs to no other tenant. Callers that are only agents have no limits,
// because their calls serve jobs. Each rate has a token bucket, which holds as many calls as the rate allows in one
// second, and at least kBurst. Thread-safe.
class CallLimits {
 public:
  static constexpr int64_t kBurst = 10;

  // Both objects must outlive this one.
  CallLimits(const Limits* limits, const Clock* clock) : limits_(limits), clock_(clock) {}

  // Counts a call. RESOURCE_EXHAUSTED (reason RATE_LIMIT) if there are too many; the error says after what time the
  // next call is allowed.
  absl::Status TakeCall(const Identity& identity);

  // The place of one open stream in the limit of open streams. Destroying the object frees the place.
  using Slot = std::shared_ptr<void>;
  // Counts a call that opens a stream. RESOURCE_EXHAUSTED with a retry delay if there are too many calls (reason
  // RATE_LIMIT) or too many open streams (TOO_MANY_STREAMS).
  absl::StatusOr<Slot> TakeStream(const Identity& identity);

  // Returns the number of callers and tenants in memory.
  size_t num_remembered() const {
    const absl::MutexLock lock(&mutex_);
    return usage_.size();
  }

 private:
  // The limits that apply to the calls of one caller or tenant.
  struct Bounds {
    std::string key;  // Such as "caller user:alice" or "tenant vision".
    std::optional<int64_t> requests, streams;
  };
  struct Usage {
    double tokens = 0;
    absl::Duration filled;  // Time since boot to which `tokens` refers.
    int64_t num_streams = 0;
  };

  std::vector<Bounds> BoundsOf(const Identity& identity) const;
  // Returns the time until the bucket has a token; zero if it has one.
  static absl::Duration WaitFor(const Bounds& bounds, absl::Duration now, Usage* usage);
  // Drops callers that have no stream and whose bucket must be full again.
  void Forget(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Take(const std::vector<Bounds>& bounds, bool is_stream);
  void Release(const std::vector<Bounds>& bounds);

  const Limits* const limits_;
  const Clock* const clock_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Usage> usage_ ABSL_GUARDED_BY(mutex_);  // Key: Bounds::key.
};

}  // namespace ampd::server
