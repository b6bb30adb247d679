#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "base/io/file.h"
#include "base/ipc/frames.h"
#include "worker/train/report/telemetry_outbox.h"

namespace ampd::train {

// The trainer's end of trainer.proto. It listens on trainer.sock in the spawn folder and serves one connection at a
// time on its own thread. A new connection replaces the old one and receives all unacknowledged reports again.
//
//   1. agent   connects
//   2. trainer Hello{ready}                       and, once bound, everything that is not acknowledged: its state,
//                                                 checkpoints, outcome and telemetry
//   3. agent   StartAttempt                       the first one binds; the same again is ignored; another one closes
//                                                 the connection
//   4. trainer TrainerState, TelemetryBatch, ...  as they occur
//   5. agent   AcknowledgeTelemetry{outcome}      ReportOutcome() returns true
//
// Checkpoints and the outcome need not wait behind a long backlog of telemetry. They name the last telemetry record
// that precedes them, and the agent waits until that record is stored.
//
// Thread-safe.
class AgentLink {
 public:
  // `outbox` outlives the link.
  AgentLink(std::string spawn_folder, TelemetryOutbox& outbox);
  ~AgentLink();

  // Sets the device error that Hello reports. Call before Start.
  void SetDeviceError(const std::string& message) { device_error_ = message; }

  // Listens and starts the thread.
  absl::Status Start();

  // Returns the attempt that the agent asked for; nullopt if `Stop` was called or the deadline, since boot, passed
  // first.
  std::optional<internal::StartAttempt> WaitForStart(absl::Duration deadline);
  std::optional<internal::LeaveAttempt> leave() const;
  // Returns orders with a greater number, in order. Of orders that set the same values, only the last remains. Numbers
  // grow over all attempts of a job.
  std::vector<internal::ApplyLossScale> LossScaleOrders(uint64_t after) const;
  // Whether gradients were requested since the last call.
  bool TakeGradientRequest();

  void ReportState(const internal::TrainerState& state);
  // The agent handles it after all telemetry up to `after_sequence`.
  void ReportCheckpoint(const v1::Checkpoint& checkpoint, uint64_t after_sequence);
  // Sends the last report; no telemetry may be added after it. Returns false if the agent did not acknowledge it by
  // `deadline`, since boot.
  bool ReportOutcome(const v1::Outcome& outcome, absl::Duration deadline);

  // Acts as if the agent had ordered to leave; an order that the agent did send remains in force. Also ends
  // WaitForStart.
  void Stop(const internal::LeaveAttempt& leave);

 private:
  struct SavedCheckpoint {
    v1::Checkpoint checkpoint;
    uint64_t after_sequence = 0;
  };

  void Serve();
  void Accept();
  void Disconnect();
  void Receive();
  bool Obey(const internal::TrainerCommand& command);
  bool Bind(const internal::StartAttempt& start);
  // Queues everything that was not yet sent on this connection.
  void Tell();
  void TellHello();
  void TellState();
  void TellTelemetry();
  void TellCheckpoints();
  void TellOutcome();
  // The value for `after_sequence`: 0 if everything up to `sequence` is acknowledged already.
  uint64_t Awaited(uint64_t sequence) const;
  void Send(const internal::TrainerReport& report);
  void Flush();
  void Wake();
  bool StartedOrStopped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  TelemetryOutbox& outbox_;
  UniqueFd listener_;
  UniqueFd wake_;
  std::thread thread_;
  std::atomic<bool> closing_ = false;

  // The connection. Used by the thread only.
  UniqueFd agent_;
  FrameDecoder decoder_;
  std::string outgoing_;
  std::string device_error_;
  bool told_hello_ = false;
  uint64_t told_sequence_ = 0;
  uint64_t told_state_ = 0;
  size_t told_checkpoints_ = 0;
  bool told_outcome_ = false;
  uint64_t last_gradient_request_ = 0;

  mutable absl::Mutex mutex_;
  std::optional<internal::StartAttempt> start_ ABSL_GUARDED_BY(mutex_);
  std::optional<internal::LeaveAttempt> leave_ ABSL_GUARDED_BY(mutex_);
  std::vector<internal::ApplyLossScale> orders_ ABSL_GUARDED_BY(mutex_);
  bool wants_gradients_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<int64_t> acknowledged_checkpoints_ ABSL_GUARDED_BY(mutex_);
  internal::TrainerState state_ ABSL_GUARDED_BY(mutex_);
  uint64_t state_version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<SavedCheckpoint> checkpoints_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::Outcome> outcome_ ABSL_GUARDED_BY(mutex_);
  bool outcome_taken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ampd::train
