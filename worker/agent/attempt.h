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
  std::vector<v1::Checkpoint> checkpoints;  // saved, not acknowledged
  int told_connection = 0;                  // of the trainer's connections, the one on which it was told all
  TelemetryRelay telemetry;
  uint64_t told_acknowledged = 0;
  int64_t log_sent_bytes = 0;
  int64_t log_stored_bytes = 0;
  bool log_drained = false;
  absl::Duration forgotten_at;  // since boot; counts once held.forgotten
};

// What the agent reports of it.
v1::AttemptReport ReportOf(const AttemptOnWorker& attempt);

// The outcome of a trainer that ended without one. `exit` is nothing when its exit status was lost.
v1::Outcome OutcomeFromExit(const AttemptOnWorker& attempt, const std::optional<internal::ShimStatus>& exit);

}  // namespace ampd::agent
