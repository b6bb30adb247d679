#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/reconcile.h"
#include "worker/agent/telemetry_relay.h"

namespace ampd::agent {

// An attempt's telemetry of which the server has stored nothing more for so long stands still. One that gets on is
// waited for, however much there is of it: its sequences are finite, as the trainer's spill file is.
inline constexpr absl::Duration kTelemetryStandstill = absl::Seconds(10);

// A checkpoint of which the server does not know. Its telemetry goes first: when the attempt is lost, and the job goes
// on elsewhere from this checkpoint, nothing is missing in the curve up to it. Behind telemetry that stands still it is
// told all the same: work is worth more than its curve.
struct SavedCheckpoint {
  v1::Checkpoint checkpoint;
  uint64_t after_sequence = 0;  // of the telemetry, the last before it
  absl::Duration seen_at;       // since boot
};

// One attempt as the agent knows it. Plain facts; the agent's loop keeps them true.
struct AttemptOnWorker {
  HeldAttempt held;
  std::optional<v1::AttemptDirective> wanted;  // nothing until a directive names it, after a restart of the agent
  absl::Duration suspend_limit = absl::Hours(1);
  std::string spawn_id;  // empty: no process was started
  int64_t step = 0;
  std::string precision;
  bool emulated = false;
  int64_t total_steps = 0;
  v1::Attempt::State trainer_state = v1::Attempt::STARTING;
  v1::Reason leave_reason = v1::REASON_UNSPECIFIED;
  std::optional<absl::Duration> kill_at;  // since boot; it was told to leave and has until then
  std::optional<v1::Outcome> outcome;
  uint64_t outcome_after_sequence = 0;  // of the telemetry, the last that the living trainer has to hand over
  std::vector<SavedCheckpoint> checkpoints;
  int told_connection = 0;  // of the trainer's connections, the one on which it was told all
  TelemetryRelay telemetry;
  absl::Duration telemetry_stored_at;  // since boot; when the server stored something last
  uint64_t told_acknowledged = 0;
  int64_t log_sent_bytes = 0;
  int64_t log_stored_bytes = 0;
  bool log_drained = false;
  absl::Duration forgotten_at;  // since boot; counts once held.forgotten
};

// What the agent reports of it at `now`, since boot. With the outcome go all checkpoints: the server takes what is left
// of the telemetry of an attempt that ended by itself.
v1::AttemptReport ReportOf(const AttemptOnWorker& attempt, absl::Duration now);

// Whether the server has all the telemetry that there is, or does not want it.
bool TelemetryIsStored(const AttemptOnWorker& attempt);

// The outcome of a trainer that ended without one. `exit` is nothing when its exit status was lost; `oom_is_a_guess` as
// SpawnFolder says.
v1::Outcome OutcomeFromExit(const AttemptOnWorker& attempt, const std::optional<internal::ShimStatus>& exit,
                            bool oom_is_a_guess);

}  // namespace ampd::agent
