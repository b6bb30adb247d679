#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "ampd/v1/worker_service.pb.h"
#include "points/step_columns.h"

// A telemetry batch holds steps, evaluations, events and samples of one attempt. Each of them is a record with a
// sequence number: its place in the attempt's telemetry, from 1 without gaps.
namespace ampd::points {

// The number of metric points: steps and evaluations.
inline int NumPoints(const v1::TelemetryBatch& batch) { return NumSteps(batch.steps()) + batch.evals_size(); }
inline int NumRecords(const v1::TelemetryBatch& batch) {
  return NumPoints(batch) + batch.events_size() + batch.samples_size();
}

// Gives the batch's one record its sequence number.
void SetSequence(uint64_t sequence, v1::TelemetryBatch* record);

// The smallest and the largest sequence of all records; 0 and 0 for an empty batch.
std::pair<uint64_t, uint64_t> SequenceRange(const v1::TelemetryBatch& batch);

// INVALID_ARGUMENT (reason MALFORMED_TELEMETRY) when CheckSteps fails, or the sequences of one kind do not grow.
absl::Status CheckBatch(const v1::TelemetryBatch& batch);

// Appends the records of `from`. REQUIRES: CheckBatch is OK for both, and all sequences of `from` are greater.
void AppendBatch(const v1::TelemetryBatch& from, v1::TelemetryBatch* to);

// Returns the part of `batch` that follows `stored` without a gap, without samples. Its events have no positions yet.
// Sets `last` to the sequence of its end.
v1::TelemetryBatch ContiguousPart(const v1::TelemetryBatch& batch, uint64_t stored, uint64_t* last);

// The smallest sequence of the batch's points. REQUIRES: the batch has points, and neither events nor samples.
uint64_t FirstPoint(const v1::TelemetryBatch& points);

// The largest sequence of the batch's points; 0 if there are none.
uint64_t LastPoint(const v1::TelemetryBatch& batch);

}  // namespace ampd::points
