#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/job.pb.h"

namespace ampd::train {

// Writes checkpoints on a thread of its own while training goes on, one at a time and in their order. One is announced
// when it is durable, and not before; an error is told to the training loop, which asks for it.
//
//   training thread   Wait -> snapshot -> Begin -> steps, Check before each ... -> Wait
//   writer's thread                       '--> write -> announce
//
// After an error nothing is begun any more. The destructor waits for a write under way, which is announced still.
// Single-threaded: owner the training loop; Write and Announce run on the writer's thread.
class CheckpointWriter {
 public:
  // Makes one durable and says what it is. What it throws is thrown by Check and Wait.
  using Write = std::function<absl::StatusOr<v1::Checkpoint>()>;
  // `after_sequence`: as Begin was given it.
  using Announce = std::function<void(const v1::Checkpoint& checkpoint, uint64_t after_sequence)>;

  static constexpr size_t kMaxWritten = 64;

  explicit CheckpointWriter(Announce announce) : announce_(std::move(announce)) {}
  ~CheckpointWriter() { Join(); }
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the one under way, then begins `write`; the error of the one before, and `write` is never called, when
  // that failed. `after_sequence` is that of the last telemetry that goes before the checkpoint.
  absl::Status Begin(uint64_t after_sequence, Write write);

  // The error of a write that failed. Does not wait.
  absl::Status Check() const;

  // Until nothing is under way; then as Check.
  absl::Status Wait();

  // As Wait, for who has no use for the error; throws nothing.
  void Join();

  // The last one that was announced.
  std::optional<v1::Checkpoint> newest() const;

  // Those that became durable, the newest first; the last kMaxWritten of them.
  std::vector<v1::Checkpoint> written() const;

 private:
  void Run(uint64_t after_sequence, const Write& write);

  const Announce announce_;
  std::thread thread_;  // of a write that was not waited for

  mutable absl::Mutex mutex_;
  std::deque<v1::Checkpoint> written_ ABSL_GUARDED_BY(mutex_);  // the newest first
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::exception_ptr exception_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::train
