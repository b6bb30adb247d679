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

// Keeps the telemetry of one attempt until the server has stored it. Every step, evaluation, event and sample gets the
// next sequence number, from 1, and is kept until it is acknowledged. Telemetry beyond the memory limit goes to a file.
// When the file is also full, Add waits.
//
//   training thread --Add--> [memory | spill file] --Read--> link thread --frames--> agent
//                                    ^-----------Acknowledge-----------'
//
// One thread calls Add, and one other thread calls Read and Acknowledge. All other functions are thread-safe. Only this
// object uses the file, and the next trainer overwrites it.
class TelemetryOutbox {
 public:
  struct Options {
    std::string spill_path;
    int64_t max_memory_bytes = 4 << 20;
    int64_t max_spill_bytes = 256 << 20;
  };

  explicit TelemetryOutbox(Options options) : options_(std::move(options)) {}

  // Calls `listener` after every Add, without holding a lock. REQUIRES: called before the first Add.
  void SetListener(std::function<void()> listener) { listener_ = std::move(listener); }

  // Adds `record`, which holds one step, evaluation, event or sample, and assigns it the next sequence number. If the
  // outbox is full, waits until `deadline` (a time since boot). If it is still full then, returns RESOURCE_EXHAUSTED
  // (reason TELEMETRY_FULL) and adds nothing.
  absl::Status Add(v1::TelemetryBatch record, absl::Duration deadline);

  // Reads the records after the sequence `after` and merges them into one batch, until the batch has `max_bytes`.
  // Returns an empty batch if there are no such records. INTERNAL if the spill file can't be read.
  absl::StatusOr<v1::TelemetryBatch> Read(uint64_t after, size_t max_bytes) const;

  // Removes all records up to `sequence`.
  void Acknowledge(uint64_t sequence);

  // Waits until everything that was added is acknowledged. Returns false if `deadline` (a time since boot) passed
  // first.
  bool AwaitAcknowledged(absl::Duration deadline) const;

  uint64_t last_sequence() const;
  uint64_t acknowledged() const;
  int64_t spilled_bytes() const;

 private:
  struct Kept {
    std::string payload;  // The serialized record; empty if it is in the file.
    int64_t offset = 0;
    int64_t size = 0;
  };

  // Waits until there is capacity for a record, and chooses between memory and file. Returns false if the deadline
  // passes first.
  bool Reserve(int64_t size, absl::Duration deadline, Kept* place);
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasNothing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return kept_.empty(); }
  absl::Status Spill(const std::string& payload, int64_t offset);

  const Options options_;
  std::function<void()> listener_;
  UniqueFd spill_;  // Opened and written by the adding thread.

  mutable absl::Mutex mutex_;
  std::deque<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // The first record has sequence acknowledged_ + 1.
  uint64_t acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t memory_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t spill_end_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_spilled_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t wanted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // Capacity that a waiting Add needs.
  int spill_fd_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace ampd::train
