#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/telemetry_relay.h"

namespace ampd::agent {

// If the server stores none of an attempt's telemetry for this long, the telemetry counts as stalled, and the agent
// stops waiting for it. As long as the server stores some, the agent waits for the rest. That wait ends, because the
// trainer's spill file has a maximum size.
inline constexpr absl::Duration kTelemetryStandstill = absl::Seconds(10);

// Tracks what one attempt still has to send to the server: checkpoints, telemetry and the log. AttemptBacklog decides
// what is sent next, what the trainer may discard, and when nothing is left to wait for. It sends nothing itself.
//
// A checkpoint is reported once the server has stored the telemetry that precedes it. If the worker is then lost and
// the job resumes elsewhere from this checkpoint, the job's curves have no gap. If that telemetry stalls, the
// checkpoint is reported anyway: losing points of a curve is better than losing trained steps.
//
// The log is sent one chunk at a time: the next chunk follows when the server has stored the previous one.
//
// Once the attempt's outcome is durable (StartDraining), the time for sending the rest is limited. The time limit of
// the telemetry starts over with each batch that the server stores.
//
// Pure: `now` is the time since boot. Single-threaded; owner: the attempt.
class AttemptBacklog {
 public:
  // Adds telemetry that the trainer has sent.
  void AddTelemetry(v1::TelemetryBatch batch) { relay_.Add(std::move(batch)); }
  // Adds a checkpoint, and replaces an earlier one of the same step. The checkpoint is reported after the telemetry up
  // to `after_sequence` is stored; 0 stands for all telemetry received so far.
  void AddCheckpoint(v1::Checkpoint checkpoint, uint64_t after_sequence, absl::Duration now);
  // Records that the trainer has reported its outcome and will send telemetry up to `sequence`.
  void ExpectTelemetryUpTo(uint64_t sequence) { expected_sequence_ = sequence; }
  // Records that the trainer has exited. Returns whether the trainer had announced telemetry that it did not send.
  bool OnTrainerExit();
  // Called when the trainer has connected again. The last acknowledgement may not have reached the trainer, so the next
  // ConsumeAcknowledgement returns it again.
  void OnTrainerConnected() { announced_sequence_ = 0; }

  // The next telemetry batch to send to the server; null if all telemetry is sent, or if the maximum number of uploads
  // is in flight.
  const v1::TelemetryBatch* NextBatch() const { return relay_.Next(); }
  void OnBatchSent() { relay_.Sent(); }
  // The log offset from which to send the next chunk; empty while a chunk is in flight.
  std::optional<int64_t> NextLogOffset() const;
  void OnLogSent(int64_t end_bytes) { log_sent_bytes_ = end_bytes; }
  // Sets whether the attempt no longer has to wait for its log.
  void SetLogDone(bool done) { log_done_ = done; }
  // Called when a new stream to the server was opened. Everything that is not acknowledged is sent again.
  void OnStreamOpened();

  // Records what the server has stored or refused. Returns true if a checkpoint can now be reported, because the server
  // has stored all telemetry before it.
  bool OnAck(const v1::TelemetryAck& ack, absl::Duration now);
  // Records that the server has stored the checkpoint of `step`. Returns false if the backlog already knew that.
  bool AcknowledgeCheckpoint(int64_t step);
  // Returns the sequence up to which the trainer may discard its telemetry. Returns nullopt if an earlier call has
  // already returned this sequence.
  std::optional<uint64_t> ConsumeAcknowledgement();

  // Returns the checkpoints that a report at `now` should name. A checkpoint is named once the server has stored all
  // telemetry that precedes it, or once that telemetry has stalled. `has_ended`: the report also has the outcome of the
  // attempt. It then names all checkpoints that the server has not acknowledged. They need not wait for the telemetry,
  // because the server accepts the remaining telemetry of an attempt that ended by itself also after its end.
  std::vector<v1::Checkpoint> ReportableCheckpoints(absl::Duration now, bool has_ended) const;

  void StartDraining(absl::Duration now) { draining_since_ = now; }
  // Whether the attempt need not wait for its telemetry any longer: the server has stored or refused it, or the time
  // limit has passed.
  bool TelemetryIsDone(absl::Duration now) const;
  bool LogIsOverdue(absl::Duration now) const;
  // Whether the attempt need not wait any longer for its telemetry and its log.
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
  absl::Duration stored_at_;                  // time at which the server last stored telemetry of the attempt
  uint64_t expected_sequence_ = 0;
  uint64_t announced_sequence_ = 0;  // the last result of ConsumeAcknowledgement
  int64_t log_sent_bytes_ = 0;
  int64_t log_stored_bytes_ = 0;
  bool log_done_ = false;
  std::optional<absl::Duration> draining_since_;
};

}  // namespace ampd::agent
