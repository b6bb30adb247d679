#include "worker/agent/attempt_uploads.h"

#include <optional>

#include "worker/shim/attempt_log.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kLogInterval = absl::Milliseconds(300);
constexpr int64_t kLogChunkBytes = 64 << 10;

}  // namespace

void AttemptUploads::SendAll(absl::Duration now) {
  const bool look_at_logs = now >= next_log_look_;
  for (const auto& attempt : *options_.attempts) {
    SendTelemetry(*attempt);
    // Send the log of an ended attempt at once, before the report of its end. A user who follows the log sees nothing
    // that arrives after that report.
    if (look_at_logs || attempt->held.forgotten || attempt->outcome.has_value()) {
      SendLog(*attempt, now);
    }
  }
  next_log_look_ = look_at_logs ? now + kLogInterval : next_log_look_;
}

v1::TelemetryUpload AttemptUploads::UploadOf(const AttemptOnWorker& attempt) const {
  v1::TelemetryUpload upload;
  upload.set_worker(options_.worker);
  *upload.mutable_key() = attempt.held.key;
  return upload;
}

void AttemptUploads::SendTelemetry(AttemptOnWorker& attempt) {
  while (const v1::TelemetryBatch* batch = attempt.backlog.NextBatch()) {
    v1::TelemetryUpload upload = UploadOf(attempt);
    *upload.mutable_batch() = *batch;
    if (!options_.link->SendTelemetry(upload)) {
      return;
    }
    attempt.backlog.OnBatchSent();
  }
}

void AttemptUploads::SendLog(AttemptOnWorker& attempt, absl::Duration now) {
  SpawnedTrainer* trainer = options_.trainers->Find(attempt.spawn_id);
  if (trainer == nullptr || attempt.backlog.telemetry().refused()) {
    attempt.backlog.SetLogDone(true);
    return;
  }
  const std::optional<int64_t> offset = attempt.backlog.NextLogOffset();
  if (!offset.has_value()) {
    attempt.backlog.SetLogDone(attempt.backlog.LogIsOverdue(now));
    return;
  }
  const absl::StatusOr<shim::LogPart> part = shim::ReadAttemptLog(trainer->folder().path(), *offset, kLogChunkBytes);
  if (!part.ok() || part->content.empty()) {
    attempt.backlog.SetLogDone(trainer->exited());
    return;
  }
  v1::TelemetryUpload upload = UploadOf(attempt);
  upload.mutable_log()->set_offset_bytes(part->offset_bytes);
  upload.mutable_log()->set_content(part->content);
  upload.mutable_log()->set_dropped_bytes(part->dropped_bytes);
  if (options_.link->SendTelemetry(upload)) {
    attempt.backlog.OnLogSent(part->offset_bytes + static_cast<int64_t>(part->content.size()));
  }
}

void AttemptUploads::OnStreamOpened() {
  for (const auto& attempt : *options_.attempts) {
    attempt->backlog.OnStreamOpened();
  }
}

void AttemptUploads::OnAck(const v1::TelemetryAck& ack, absl::Duration now) {
  AttemptOnWorker* attempt = options_.attempts->Find(ack.key());
  if (attempt == nullptr) {
    return;
  }
  if (attempt->backlog.OnAck(ack, now)) {
    options_.report_soon();
  }
  SpawnedTrainer* trainer = options_.trainers->Find(attempt->spawn_id);
  if (trainer == nullptr) {
    return;
  }
  if (const std::optional<uint64_t> stored = attempt->backlog.ConsumeAcknowledgement(); stored.has_value()) {
    internal::TrainerCommand command;
    command.mutable_acknowledge()->set_sequence(*stored);
    trainer->SendToTrainer(command);
  }
}

}  // namespace ampd::agent
