#pragma once

#include <cstddef>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "server/coordinator/state_listener.h"
#include "server/coordinator/uploaded_model.h"
#include "server/ledger/ledger.h"
#include "server/state/retention.h"

namespace ampd::server {

// The dependencies and settings of a coordinator.
struct CoordinatorOptions {
  Ledger* ledger = nullptr;
  const Clock* clock = nullptr;
  RandomSource* random = nullptr;  // Thread-safe.
  StateListener* listener = nullptr;
  ModelFinder::Options models;
  absl::Duration lease = absl::Seconds(10);
  absl::Duration lease_margin = absl::Seconds(5);
  absl::Duration suspend_limit = absl::Hours(1);
  absl::Duration local_checkpoint_wait = absl::Minutes(10);
  // How long after its end a job moves to the history table; zero: never.
  absl::Duration archive_after = absl::Hours(1);
  RetentionPolicy retention;
  absl::Duration worker_retention = absl::Hours(24 * 7);  // How long after its loss a worker is removed; zero: never.
  // If the jobs in memory exceed either of these limits, new jobs are refused.
  size_t max_jobs_in_hot_state = 200'000;
  size_t max_spec_bytes_in_hot_state = size_t{512} << 20;
};

}  // namespace ampd::server
