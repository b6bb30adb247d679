#include "worker/agent/attempts/attempt_backlog.h"

#include <algorithm>
#include <utility>

namespace ampd::agent {
namespace {

constexpr absl::Duration kDrainLimit = absl::Minutes(2);
constexpr absl::Duration kLogDrainLimit = absl::Seconds(10);

}  // namespace

void AttemptBacklog::AddCheckpoint(v1::Checkpoint checkpoint, uint64_t after_sequence, absl::Duration now) {
  std::erase_if(checkpoints_,
                [&](const SavedCheckpoint& saved) { return saved.checkpoint.step() == checkpoint.step(); });
  const uint64_t after = after_sequence > 0 ? after_sequence : relay_.received();
  checkpoints_.push_back({std::move(checkpoint), after, now});
}

bool AttemptBacklog::OnTrainerExit() { return std::exchange(expected_sequence_, 0) > relay_.received(); }

std::optional<int64_t> AttemptBacklog::NextLogOffset() const {
  return log_sent_bytes_ > log_stored_bytes_ ? std::nullopt : std::optional<int64_t>(log_sent_bytes_);
}

void AttemptBacklog::OnStreamOpened() {
  relay_.Rewind();
  log_sent_bytes_ = log_stored_bytes_;
}

bool AttemptBacklog::OnAck(const v1::TelemetryAck& ack, absl::Duration now) {
  const uint64_t before = relay_.acknowledged();
  if (ack.refused()) {
    relay_.Refuse();
  } else {
    relay_.Acknowledge(ack.stored_sequence());
    log_stored_bytes_ = std::max(log_stored_bytes_, ack.stored_log_bytes());
    log_sent_bytes_ = std::max(log_sent_bytes_, log_stored_bytes_);
  }
  if (relay_.acknowledged() > before) {
    stored_at_ = now;
  }
  return std::any_of(checkpoints_.begin(), checkpoints_.end(), [&](const SavedCheckpoint& saved) {
    return saved.after_sequence > before && saved.after_sequence <= relay_.acknowledged();
  });
}

bool AttemptBacklog::AcknowledgeCheckpoint(int64_t step) {
  return std::erase_if(checkpoints_, [&](const SavedCheckpoint& saved) { return saved.checkpoint.step() == step; }) > 0;
}

std::optional<uint64_t> AttemptBacklog::ConsumeAcknowledgement() {
  if (relay_.acknowledged() <= announced_sequence_) {
    return std::nullopt;
  }
  announced_sequence_ = relay_.acknowledged();
  return announced_sequence_;
}

std::vector<v1::Checkpoint> AttemptBacklog::ReportableCheckpoints(absl::Duration now, bool has_ended) const {
  std::vector<v1::Checkpoint> reportable;
  for (const SavedCheckpoint& saved : checkpoints_) {
    const bool is_stored = relay_.refused() || saved.after_sequence <= relay_.acknowledged();
    const bool stands_still = now >= std::max(saved.seen_at, stored_at_) + kTelemetryStandstill;
    if (is_stored || stands_still || has_ended) {
      reportable.push_back(saved.checkpoint);
    }
  }
  return reportable;
}

bool AttemptBacklog::TelemetryIsStored() const {
  return relay_.refused() || (relay_.empty() && relay_.acknowledged() >= expected_sequence_);
}

bool AttemptBacklog::IsOverdue(absl::Duration now) const {
  return draining_since_.has_value() && now > std::max(*draining_since_, stored_at_) + kDrainLimit;
}

bool AttemptBacklog::LogIsOverdue(absl::Duration now) const {
  return draining_since_.has_value() && now > *draining_since_ + kLogDrainLimit;
}

bool AttemptBacklog::TelemetryIsDone(absl::Duration now) const { return TelemetryIsStored() || IsOverdue(now); }

bool AttemptBacklog::IsDone(absl::Duration now) const { return (TelemetryIsStored() && log_done_) || IsOverdue(now); }

}  // namespace ampd::agent
