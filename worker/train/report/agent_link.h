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

// The trainer's end of trainer.proto: listens on trainer.sock in the spawn folder and serves one connection at a time
// on a thread of its own; a new connection takes the place of the old one and is told everything again.
//
//   1. agent   connects
//   2. trainer Hello{ready}                       and, once bound, its state, checkpoints, outcome, telemetry: all that
//                                                 is not acknowledged
//   3. agent   StartAttempt                       the first one binds; the same again is ignored, another is refused by
//                                                 closing the connection
//   4. trainer TrainerState, TelemetryBatch, ...  as they come
//   5. agent   AcknowledgeTelemetry{outcome}      WaitForOutcomeTaken() returns
//
// Checkpoints and the outcome do not wait behind a long backlog of telemetry: they name the last telemetry that was
// made before them, which the agent sees stored first.
//
// Thread-safe.
class AgentLink {
 public:
  // `outbox` outlives the link.
  AgentLink(std::string spawn_folder, TelemetryOutbox& outbox);
  ~AgentLink();

  // What Hello says of the device. Call before Start.
  void SetDeviceError(const std::string& message) { device_error_ = message; }

  // Listens and starts the thread.
  absl::Status Start();

  // What the agent asked for; nothing when `Stop` was called or the deadline, since boot, came first.
  std::optional<internal::StartAttempt> WaitForStart(absl::Duration deadline);
  std::optional<internal::LeaveAttempt> leave() const;
  // Orders with a greater number, in their order; of those that set the same, the last one. Numbers grow over all
  // attempts of a job.
  std::vector<internal::ApplyLossScale> LossScaleOrders(uint64_t after) const;
  // Whether the gradients were asked for since the last call.
  bool TakeGradientRequest();

  void ReportState(const internal::TrainerState& state);
  // It comes after all telemetry up to `after_sequence`.
  void ReportCheckpoint(const v1::Checkpoint& checkpoint, uint64_t after_sequence);
  // The last report; no telemetry is added any more. False when the agent did not acknowledge it until `deadline`,
  // since boot.
  bool ReportOutcome(const v1::Outcome& outcome, absl::Duration deadline);

  // As if the agent had told to leave; a leave that it did tell stays. Also ends WaitForStart.
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
  // Queues what the connection has not been told yet.
  void Tell();
  void TellHello();
  void TellState();
  void TellTelemetry();
  void TellCheckpoints();
  void TellOutcome();
  // For `after_sequence`: 0 when nothing up to `sequence` has to be waited for.
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

  // The connection; touched by the thread only.
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
