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

// Writes checkpoints on its own thread while training continues, one at a time and in order. Each checkpoint is
// announced only once it is durable. The training loop polls for errors with Check.
//
//   training thread   Wait -> snapshot -> Begin -> steps, Check before each ... -> Wait
//   writer's thread                       '--> write -> announce
//
// After an error no further write starts. The destructor waits for a write in progress, which is still announced.
// Single-threaded; owner: the training loop. Write and Announce run on the writer's thread.
class CheckpointWriter {
 public:
  // Makes one checkpoint durable and describes it. If it throws, Check and Wait rethrow the exception.
  using Write = std::function<absl::StatusOr<v1::Checkpoint>()>;
  // Called on the writer's thread when a checkpoint is durable. `after_sequence`: the value that was passed to Begin.
  using Announce = std::function<void(const v1::Checkpoint& checkpoint, uint64_t after_sequence)>;

  static constexpr size_t kMaxWritten = 64;

  explicit CheckpointWriter(Announce announce) : announce_(std::move(announce)) {}
  ~CheckpointWriter() { Join(); }
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the write in progress, then starts `write`. If an earlier write failed, returns its error and never calls
  // `write`. `after_sequence`: the sequence of the last telemetry that precedes the checkpoint.
  absl::Status Begin(uint64_t after_sequence, Write write);

  // Returns the error of a failed write, without waiting.
  absl::Status Check() const;

  // Waits until no write is in progress. Returns the error of a failed write.
  absl::Status Wait();

  // Waits until no write is in progress. Returns no error and throws nothing.
  void Join();

  // The checkpoint that was announced last.
  std::optional<v1::Checkpoint> newest() const;

  // The checkpoints that became durable, newest first; at most kMaxWritten.
  std::vector<v1::Checkpoint> written() const;

 private:
  void Run(uint64_t after_sequence, const Write& write);

  const Announce announce_;
  std::thread thread_;  // Runs the newest write; joined by Wait or Join.

  mutable absl::Mutex mutex_;
  std::deque<v1::Checkpoint> written_ ABSL_GUARDED_BY(mutex_);  // Newest first.
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::exception_ptr exception_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::train
