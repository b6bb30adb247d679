#pragma once

#include "ampd/internal/trainer.pb.h"
#include "worker/train/agent_link.h"
#include "worker/train/step_log.h"

namespace ampd::train {

// Loads LibTorch's libraries and runs the first op, with deterministic algorithms and counted memory, so that a warm
// trainer starts an attempt without any of that. Call once, before everything else here.
void WarmUp();

// Runs the attempt to its end and says how it ended. The one place where exceptions of LibTorch and of the standard
// library become typed reasons; none leaves it.
v1::Outcome RunAttempt(const internal::StartAttempt& start, AgentLink& link, TelemetryOutbox& outbox,
                       StepLog& step_log);

// The reason of an error's ErrorInfo; INTERNAL for one that is not a v1.Reason.
v1::Reason ReasonFor(const absl::Status& status);

}  // namespace ampd::train
