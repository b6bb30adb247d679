#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/reconcile.h"
#include "worker/agent/attempts/telemetry_relay.h"

namespace ampd::agent {

// Telemetry counts as stalled when the server has stored none of it for this long. The agent waits for telemetry that
// makes progress, however much there is: the amount is finite, as the trainer's spill file is.
inline constexpr absl::Duration kTelemetryStandstill = absl::Seconds(10);

// A checkpoint that the server does not know of yet. The telemetry before it goes first: if the attempt is lost and the
// job resumes elsewhere from this checkpoint, its curve is complete up to there. If that telemetry stalls, the
// checkpoint is reported all the same: losing points of a curve is better than losing work.
struct SavedCheckpoint {
  v1::Checkpoint checkpoint;
  uint64_t after_sequence = 0;  // the last telemetry sequence before the checkpoint
  absl::Duration seen_at;       // since boot
};

// One attempt as the agent knows it. Plain data; the agent's loop keeps it up to date.
struct AttemptOnWorker {
  HeldAttempt held;
  std::optional<v1::AttemptDirective> wanted;  // empty after an agent restart, until a directive names it
  absl::Duration suspend_limit = absl::Hours(1);
  std::string spawn_id;  // empty: no process was started
  int64_t step = 0;
  std::string precision;
  bool emulated = false;
  int64_t total_steps = 0;
  v1::Attempt::State trainer_state = v1::Attempt::STARTING;
  v1::Reason leave_reason = v1::REASON_UNSPECIFIED;
  std::optional<absl::Duration> kill_at;  // deadline of a trainer that was asked to leave; since boot
  std::optional<v1::Outcome> outcome;
  uint64_t outcome_after_sequence = 0;  // the last telemetry sequence that the trainer has yet to hand over
  std::vector<SavedCheckpoint> checkpoints;
  int told_connection = 0;  // number of the trainer connection on which all commands were sent
  TelemetryRelay telemetry;
  absl::Duration telemetry_stored_at;  // since boot; when the server last stored some of the telemetry
  uint64_t told_acknowledged = 0;
  int64_t log_sent_bytes = 0;
  int64_t log_stored_bytes = 0;
  bool log_drained = false;
  absl::Duration forgotten_at;  // since boot; valid once held.forgotten
};

// The agent's report of the attempt at `now`, since boot. With an outcome it names all checkpoints at once: the server
// still accepts the remaining telemetry of an attempt that ended by itself.
v1::AttemptReport ReportOf(const AttemptOnWorker& attempt, absl::Duration now);

// Whether the server has stored all telemetry received so far, or refuses it.
bool TelemetryIsStored(const AttemptOnWorker& attempt);

// The outcome of a trainer that ended without reporting one. `exit` is empty if its exit status was lost.
// `oom_is_a_guess`: see SpawnFolder::OomIsAGuess.
v1::Outcome OutcomeFromExit(const AttemptOnWorker& attempt, const std::optional<internal::ShimStatus>& exit,
                            bool oom_is_a_guess);

}  // namespace ampd::agent
