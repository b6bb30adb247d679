#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/trace_context.h"
#include "worker/agent/attempts/attempt_backlog.h"
#include "worker/agent/attempts/reconcile.h"

namespace ampd::agent {

// One attempt as the agent knows it. Plain data; the agent's loop keeps it up to date.
struct AttemptOnWorker {
  HeldAttempt held;
  std::optional<v1::AttemptDirective> wanted;  // empty after an agent restart, until a directive names the attempt
  TraceContext trace;                          // the agent's span for the attempt; not set if the server named no trace
  std::string spawn_id;                        // empty: no trainer was started
  int64_t step = 0;
  int64_t last_saved_step = -1;  // step of the last checkpoint that the trainer reported
  std::string precision;
  bool emulated = false;
  int64_t total_steps = 0;
  v1::Attempt::State trainer_state = v1::Attempt::STARTING;
  v1::Reason::Code leave_reason = v1::Reason::REASON_UNSPECIFIED;
  std::optional<absl::Duration> kill_at;  // deadline of a trainer that was asked to leave; since boot
  std::optional<v1::Outcome> outcome;
  int commanded_connection = 0;  // newest trainer connection that got the start command; 0: none
  AttemptBacklog backlog;
};

// Returns the agent's report on the attempt. `now`: the time since boot.
v1::AttemptReport ReportOf(const AttemptOnWorker& attempt, absl::Duration now);

// The state of an attempt that has not ended. `is_suspended`: whether its trainer is suspended.
v1::Attempt::State LivingState(const AttemptOnWorker& attempt, bool is_suspended);

}  // namespace ampd::agent
