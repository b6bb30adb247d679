#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/io/file.h"

namespace ampd::train {

// Telemetry of one attempt until the server has it. Every step, evaluation, event and sample gets the next sequence,
// from 1, and stays until it is acknowledged. What does not fit into memory goes to a file; when that is full too,
// adding waits.
//
//   training thread --Add--> [memory | spill file] --Read--> link thread --frames--> agent
//                                    ^-----------Acknowledge-----------'
//
// Add is for one thread, Read and Acknowledge for one other; the rest is thread-safe. The file's content is of no use
// to anybody else and is overwritten at the next start.
class TelemetryOutbox {
 public:
  struct Options {
    std::string spill_path;
    int64_t max_memory_bytes = 4 << 20;
    int64_t max_spill_bytes = 256 << 20;
  };

  explicit TelemetryOutbox(Options options) : options_(std::move(options)) {}

  // Calls `listener` after every Add, without a lock. REQUIRES: before the first Add.
  void SetListener(std::function<void()> listener) { listener_ = std::move(listener); }

  // Takes `record`, which holds one step, one evaluation, one event or one sample, and gives it its sequence. Waits for
  // room until `deadline`, since boot, then RESOURCE_EXHAUSTED (reason TELEMETRY_FULL) and nothing was taken.
  absl::Status Add(v1::TelemetryBatch record, absl::Duration deadline);

  // Records after the sequence `after`, merged, until there are `max_bytes` of them; empty when there are none.
  // INTERNAL when the spill file can't be read.
  absl::StatusOr<v1::TelemetryBatch> Read(uint64_t after, size_t max_bytes) const;

  // Forgets everything up to `sequence`.
  void Acknowledge(uint64_t sequence);

  uint64_t last_sequence() const;
  uint64_t acknowledged() const;
  int64_t spilled_bytes() const;

 private:
  struct Kept {
    std::string payload;  // empty: in the file
    int64_t offset = 0;
    int64_t size = 0;
  };

  // Where a record goes; waits for room. False when the deadline came first.
  bool Reserve(int64_t size, absl::Duration deadline, Kept* place);
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Spill(const std::string& payload, int64_t offset);

  const Options options_;
  std::function<void()> listener_;
  UniqueFd spill_;  // opened and written by the adding thread

  mutable absl::Mutex mutex_;
  std::deque<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // the first one has sequence acknowledged_ + 1
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t memory_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t spill_end_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_spilled_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t wanted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // by an Add that waits
  int spill_fd_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace ampd::train
