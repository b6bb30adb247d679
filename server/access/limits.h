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

// The limits of one tenant. nullopt: no limit.
struct TenantLimits {
  std::optional<int64_t> jobs;            // Jobs that have not ended.
  std::optional<int64_t> spec_bytes;      // Bytes of the specs of all unfinished jobs together.
  std::optional<int64_t> artifact_bytes;  // Bytes of the tenant's uploads and generated samples.
  std::optional<int64_t> requests;        // Calls a second, of all callers of the tenant together.
  std::optional<int64_t> streams;         // Open watches, logs, uploads and downloads.
};

// The limits of one caller, which is a user, a token or a certificate. nullopt: no limit.
struct CallerLimits {
  std::optional<int64_t> requests;  // The most calls a second.
  std::optional<int64_t> streams;
};

// The limits that --tenant-limit and --caller-limit set. They can be replaced while calls use them. Thread-safe.
class Limits {
 public:
  Limits() = default;
  Limits(const Limits& other) : table_(other.table()) {}
  // Replaces all limits atomically: a concurrent reader sees either the old or the new limits.
  Limits& operator=(const Limits& other);

  // Adds a limit of a tenant, such as "vision:jobs=500". "*:requests=50" applies to each tenant that has no such limit
  // of its own. INVALID_ARGUMENT (reason BAD_LIMIT) with a text for the operator if the text is malformed.
  absl::Status AddForTenants(std::string_view text);
  // Adds a limit that applies to each caller, such as "requests=20".
  absl::Status AddForCallers(std::string_view text);

  TenantLimits OfTenant(const std::string& tenant) const;
  CallerLimits of_caller() const {
    const absl::MutexLock lock(&mutex_);
    return table_.of_caller;
  }

 private:
  struct Table {
    std::map<std::string, TenantLimits> of_tenant;  // Key: the tenant; "*" has the limits of tenants without their own.
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
