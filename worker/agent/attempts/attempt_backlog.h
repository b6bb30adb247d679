#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/telemetry_relay.h"

namespace ampd::agent {

// Telemetry counts as stalled when the server has stored none of it for this long. While telemetry makes progress, the
// agent waits for it, however much there is: the amount is finite, because the size of the trainer's spill file is
// limited.
inline constexpr absl::Duration kTelemetryStandstill = absl::Seconds(10);

// What one attempt still has to send to the server: its checkpoints, telemetry and log. AttemptBacklog decides what is
// sent next, what the trainer may discard, and when nothing is left to wait for. It sends nothing itself.
//
// A checkpoint is reported once the server has stored the telemetry before it: if the attempt is lost and the job
// resumes elsewhere from this checkpoint, its curve is complete up to there. If that telemetry stalls, the checkpoint
// is reported all the same: losing points of a curve is better than losing work.
//
// The log is sent one chunk at a time: the next chunk follows when the server has stored the previous one.
//
// Once the attempt's outcome is durable (StartDraining), the time for sending the rest is limited. Each telemetry batch
// that the server stores restarts the time limit of the telemetry.
//
// Pure: `now` is the time since boot. Single-threaded: owner the attempt.
class AttemptBacklog {
 public:
  // These functions record what the trainer sends.
  void AddTelemetry(v1::TelemetryBatch batch) { relay_.Add(std::move(batch)); }
  // Adds a checkpoint, in place of an earlier one of the same step. `after_sequence` is the sequence of the last
  // telemetry before the checkpoint; 0 means the last sequence received so far, and is sent by trainers of an earlier
  // version.
  void AddCheckpoint(v1::Checkpoint checkpoint, uint64_t after_sequence, absl::Duration now);
  // The trainer has reported its outcome, and will send telemetry up to `sequence`.
  void ExpectTelemetryUpTo(uint64_t sequence) { expected_sequence_ = sequence; }
  // The trainer has exited. Returns whether telemetry that was expected is lost with it.
  bool OnTrainerExit();
  // The trainer has connected again and no longer knows what was acknowledged, so ConsumeAcknowledgement returns it
  // again.
  void OnTrainerConnected() { announced_sequence_ = 0; }

  // These functions choose and record what is sent to the server. NextBatch returns null if all telemetry is sent, or
  // if the maximum number of uploads is in flight.
  const v1::TelemetryBatch* NextBatch() const { return relay_.Next(); }
  void OnBatchSent() { relay_.Sent(); }
  // The offset from which the log is sent next; empty while a chunk is in flight.
  std::optional<int64_t> NextLogOffset() const;
  void OnLogSent(int64_t end_bytes) { log_sent_bytes_ = end_bytes; }
  // `done`: whether there is no more log text to wait for.
  void SetLogDone(bool done) { log_done_ = done; }
  // A stream was opened: everything that is not acknowledged is sent again.
  void OnStreamOpened();

  // These functions record what the server sends. OnAck returns whether a checkpoint can be reported that could not be
  // reported before.
  bool OnAck(const v1::TelemetryAck& ack, absl::Duration now);
  // Returns false if the checkpoint was acknowledged before.
  bool AcknowledgeCheckpoint(int64_t step);
  // The sequence up to which the trainer may discard its telemetry; empty if it was already returned.
  std::optional<uint64_t> ConsumeAcknowledgement();

  // Returns the checkpoints that a report at `now` should name. A checkpoint is named once the server has stored all
  // telemetry of the steps before it, or once storing that telemetry has made no progress for too long.
  // If `has_ended`, returns all checkpoints that the server has not acknowledged, because the server still accepts the
  // remaining telemetry of an attempt that ended by itself.
  std::vector<v1::Checkpoint> ReportableCheckpoints(absl::Duration now, bool has_ended) const;

  void StartDraining(absl::Duration now) { draining_since_ = now; }
  // Whether the server has stored, or refuses, all telemetry of the trainer, or the time for it is over.
  bool TelemetryIsDone(absl::Duration now) const;
  bool LogIsOverdue(absl::Duration now) const;
  // Whether nothing of the attempt is left to wait for.
  bool IsDone(absl::Duration now) const;

  const TelemetryRelay& telemetry() const { return relay_; }

 private:
  struct SavedCheckpoint {
    v1::Checkpoint checkpoint;
    uint64_t after_sequence = 0;
    absl::Duration seen_at;
  };

  bool TelemetryIsStored() const;
  bool IsOverdue(absl::Duration now) const;

  TelemetryRelay relay_;
  std::vector<SavedCheckpoint> checkpoints_;  // not acknowledged yet
  absl::Duration stored_at_;                  // when the server last stored some of the telemetry
  uint64_t expected_sequence_ = 0;
  uint64_t announced_sequence_ = 0;  // the last result of ConsumeAcknowledgement
  int64_t log_sent_bytes_ = 0;
  int64_t log_stored_bytes_ = 0;
  bool log_done_ = false;
  std::optional<absl::Duration> draining_since_;
};

}  // namespace ampd::agent
