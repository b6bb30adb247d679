#include "worker/agent/attempts/telemetry_relay.h"

#include <algorithm>
#include <utility>

#include "points/step_columns.h"
#include "points/telemetry_batch.h"

namespace ampd::agent {
namespace {

using v1::TelemetryBatch;

// Whether the batch may be merged with others: it is well-formed, so that the server accepts it, and has no columns
// that this agent does not know.
bool IsJoinable(const TelemetryBatch& batch) {
  return points::CheckBatch(batch).ok() && !points::HasUnknownColumns(batch.steps());
}

}  // namespace

void TelemetryRelay::Add(TelemetryBatch batch) {
  const auto [first, last] = points::SequenceRange(batch);
  // On a new connection a trainer sends unacknowledged batches again. Skip a batch that was received before.
  if (last <= received_) {
    return;
  }
  received_ = last;
  if (refused_) {
    return;
  }
  if (batch.has_steps()) {
    points::CompleteColumns(batch.mutable_steps());
  }
  const size_t num_bytes = batch.ByteSizeLong();
  num_bytes_ += num_bytes;
  const bool joinable = IsJoinable(batch);
  Kept added = {std::move(batch), first, last, num_bytes, joinable};
  if (!MergeIntoLast(added)) {
    batches_.push_back(std::move(added));
  }
}

// Never merges a batch that the server would drop, because the server would then drop the other records too.
bool TelemetryRelay::MergeIntoLast(const Kept& added) {
  if (batches_.size() <= num_sent_) {
    return false;
  }
  Kept& kept = batches_.back();
  if (!kept.joinable || !added.joinable || added.first != kept.last + 1 ||
      points::NumRecords(kept.batch) + points::NumRecords(added.batch) > kMaxMergedPoints ||
      kept.num_bytes + added.num_bytes > kMaxMergedBytes) {
    return false;
  }
  points::AppendBatch(added.batch, &kept.batch);
  kept.last = added.last;
  kept.num_bytes += added.num_bytes;
  return true;
}

const TelemetryBatch* TelemetryRelay::Next() const {
  return num_sent_ < std::min(batches_.size(), kMaxUploads) ? &batches_[num_sent_].batch : nullptr;
}

void TelemetryRelay::Acknowledge(uint64_t sequence) {
  acknowledged_ = std::max(acknowledged_, sequence);
  while (!batches_.empty() && batches_.front().last <= acknowledged_) {
    num_bytes_ -= batches_.front().num_bytes;
    batches_.pop_front();
    num_sent_ -= num_sent_ > 0 ? 1 : 0;
  }
}

void TelemetryRelay::Refuse() {
  refused_ = true;
  batches_.clear();
  num_sent_ = 0;
  num_bytes_ = 0;
}

}  // namespace ampd::agent
