#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/reconcile.h"

namespace ampd::agent {

// Telemetry of one attempt between its trainer and the server. The trainer keeps everything until it is acknowledged;
// what is here is bounded and may be lost. Single-threaded: owner the agent's loop.
class TelemetryRelay {
 public:
  void Add(v1::TelemetryBatch batch);
  // The next batch to send; nothing when all are sent. Sent() moves on.
  const v1::TelemetryBatch* Next() const;
  void Sent() { ++num_sent_; }
  // On a new stream: everything that is not acknowledged goes again.
  void Rewind() { num_sent_ = 0; }
  void Acknowledge(uint64_t sequence);
  // The server does not want it: what is here and what still comes is dropped.
  void Refuse();

  bool full() const { return num_bytes_ >= kMaxBytes; }
  bool empty() const { return batches_.empty(); }
  bool refused() const { return refused_; }
  uint64_t received() const { return received_; }
  // Everything up to it may be forgotten by the trainer.
  uint64_t acknowledged() const { return refused_ ? received_ : acknowledged_; }

 private:
  static constexpr size_t kMaxBytes = 4 << 20;
  struct Kept {
    v1::TelemetryBatch batch;
    uint64_t last = 0;
    size_t num_bytes = 0;
  };
  std::deque<Kept> batches_;
  size_t num_sent_ = 0;
  size_t num_bytes_ = 0;
  uint64_t received_ = 0;
  uint64_t acknowledged_ = 0;
  bool refused_ = false;
};

// The highest sequence in a batch; 0 for an empty one.
uint64_t LastSequence(const v1::TelemetryBatch& batch);

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
