#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace ampd::server {

// What a tenant may have at most. Nothing: no limit.
struct TenantLimits {
  std::optional<int64_t> jobs;            // That have not ended.
  std::optional<int64_t> spec_bytes;      // Of these jobs together.
  std::optional<int64_t> artifact_bytes;  // Of its uploads and samples.
  std::optional<int64_t> requests;        // Calls a second, of all its callers together.
  std::optional<int64_t> streams;         // Watches, logs, uploads and downloads that are open at once.
};

// What one caller may do at most: one user, token or certificate. Nothing: no limit.
struct CallerLimits {
  std::optional<int64_t> requests;  // Calls a second.
  std::optional<int64_t> streams;
};

// The limits of --tenant-limit and --caller-limit. They can be replaced while calls use them. Thread-safe.
class Limits {
 public:
  Limits() = default;
  Limits(const Limits& other) : table_(other.table()) {}
  // Replaces all limits, in one step for others that use them.
  Limits& operator=(const Limits& other);

  // Adds "vision:jobs=500" or, for each tenant without a limit of its own, "*:requests=50". INVALID_ARGUMENT (reason
  // BAD_LIMIT) with a text for the operator if the text has another form.
  absl::Status AddForTenants(std::string_view text);
  // Adds "requests=20".
  absl::Status AddForCallers(std::string_view text);

  TenantLimits OfTenant(const std::string& tenant) const;
  CallerLimits of_caller() const {
    const absl::MutexLock lock(&mutex_);
    return table_.of_caller;
  }

 private:
  struct Table {
    std::map<std::string, TenantLimits> of_tenant;  // By tenant; "*" for those without.
    CallerLimits of_caller;
  };

  Table table() const {
    const absl::MutexLock lock(&mutex_);
    return table_;
  }

  mutable absl::Mutex mutex_;
  Table table_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
