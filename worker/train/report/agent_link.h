#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "worker/train/report/agent_connection.h"
#include "worker/train/report/telemetry_outbox.h"

namespace ampd::train {

// The trainer's end of trainer.proto: keeps the agent's orders for the trainer, and the trainer's reports for the
// agent. AgentConnection sends and receives. Reports that the agent has not acknowledged are sent again on the next
// connection.
//
//   1. agent   connects
//   2. trainer Hello{ready}                       and, once bound to an attempt, everything that is not
//                                                 acknowledged: state, checkpoints, outcome and telemetry
//   3. agent   StartAttempt                       binds the trainer to the attempt; a repeat is ignored; a StartAttempt
//                                                 for another attempt closes the connection
//   4. trainer TrainerState, TelemetryBatch, ...  as they occur
//   5. agent   AcknowledgeTelemetry{outcome}      ReportOutcome() returns true
//
// Checkpoints and the outcome need not wait behind a long backlog of telemetry. They name the last telemetry record
// that precedes them, and the agent waits until that record is stored.
//
// Thread-safe.
class AgentLink final : private AgentConnection::Peer {
 public:
  // `outbox` outlives the link.
  AgentLink(std::string spawn_folder, TelemetryOutbox& outbox);

  // Sets the device error that Hello reports, shortened to one that the server accepts. Call before Start.
  void SetDeviceError(const std::string& message);

  // Listens and serves the agent from then on.
  absl::Status Start() { return connection_.Start(); }

  // Waits for the agent's StartAttempt and returns it. Returns nullopt if `Stop` is called, or if the deadline, since
  // boot, passes.
  std::optional<internal::StartAttempt> WaitForStart(absl::Duration deadline);
  std::optional<internal::LeaveAttempt> leave() const;
  // The newest settings of the loss scale that the agent has sent for the running attempt.
  v1::LiveLossScale live_loss_scale() const;
  // Whether gradients were requested since the last call.
  bool TakeGradientRequest();
  // Returns the number of steps to profile, if a profile was requested since the last call; otherwise 0.
  int TakeProfileRequest();

  void ReportState(const internal::TrainerState& state);
  // Reports a checkpoint. `after_sequence`: the sequence of the last telemetry record that precedes the checkpoint.
  void ReportCheckpoint(const v1::Checkpoint& checkpoint, uint64_t after_sequence);
  // Reports the outcome, which is the last report; no telemetry may be added afterwards. Bytes of its message that are
  // not UTF-8 are replaced. Waits until the agent acknowledges the outcome. Returns false if `deadline` (a time since
  // boot) passes first.
  bool ReportOutcome(const v1::Outcome& outcome, absl::Duration deadline);

  // Makes the attempt leave as if the agent had ordered it. If the agent did send an order to leave, that order stays
  // in force. Also ends WaitForStart.
  void Stop(const internal::LeaveAttempt& leave);

 private:
  struct SavedCheckpoint {
    v1::Checkpoint checkpoint;
    uint64_t after_sequence = 0;
  };
  // The reports. They are kept after they were sent, so that the next connection can send unacknowledged ones again.
  struct Reports {
    internal::TrainerState state;
    uint64_t state_version = 0;  // Incremented with every change of `state`.
    std::vector<SavedCheckpoint> checkpoints;
    std::set<int64_t> acknowledged_checkpoints;  // The steps of these checkpoints.
    std::optional<v1::Outcome> outcome;
    bool outcome_acknowledged = false;
  };

  internal::TrainerReport MakeHello() override;
  std::vector<internal::TrainerReport> UnsentState(AgentConnection::Sent& sent) override;
  std::vector<internal::TrainerReport> UnsentCheckpointsAndOutcome(AgentConnection::Sent& sent) override;
  bool OnCommand(const internal::TrainerCommand& command) override;
  bool OnStart(const internal::StartAttempt& start);
  void OnLeave(const internal::LeaveAttempt& leave);
  void OnLossScale(const v1::LiveLossScale& settings);
  void OnSampleGradients(const internal::SampleGradients& request);
  void OnProfile(const v1::ProfileRequest& request);
  void OnAcknowledge(const internal::AcknowledgeTelemetry& acknowledge);

  // Returns the `after_sequence` for a report that must wait in the agent until the telemetry up to `sequence` is
  // stored. Returns 0 if that telemetry is already acknowledged: the trainer does not send it again, so a restarted
  // agent would wait for it forever.
  uint64_t Awaited(uint64_t sequence) const;
  bool StartedOrStopped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return start_.has_value() || stopped_; }

  TelemetryOutbox& outbox_;
  std::string device_error_;

  mutable absl::Mutex mutex_;
  std::optional<internal::StartAttempt> start_ ABSL_GUARDED_BY(mutex_);
  std::optional<internal::LeaveAttempt> leave_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  v1::LiveLossScale loss_scale_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_gradient_request_ ABSL_GUARDED_BY(mutex_) = 0;
  bool gradients_requested_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_profile_request_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_profile_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  Reports reports_ ABSL_GUARDED_BY(mutex_);

  AgentConnection connection_;  // Last member, because its thread uses the members above.
};

}  // namespace ampd::train
