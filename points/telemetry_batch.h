#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "ampd/v1/worker_service.pb.h"
#include "points/step_columns.h"

// A telemetry batch holds steps, evaluations, events and generated samples of one attempt. Each of these is a record
// with a sequence number, which counts the attempt's records from 1 without gaps.
namespace ampd::points {

// The number of metric points: steps and evaluations.
inline int NumPoints(const v1::TelemetryBatch& batch) { return NumSteps(batch.steps()) + batch.evals_size(); }
inline int NumRecords(const v1::TelemetryBatch& batch) {
  return NumPoints(batch) + batch.events_size() + batch.samples_size();
}

// Sets the sequence number of a batch's only record.
void SetSequence(uint64_t sequence, v1::TelemetryBatch* record);

// The smallest and the largest sequence of all records; 0 and 0 for an empty batch.
std::pair<uint64_t, uint64_t> SequenceRange(const v1::TelemetryBatch& batch);

// Returns INVALID_ARGUMENT (reason MALFORMED_TELEMETRY) if CheckSteps fails, or if the sequence numbers of the
// evaluations, events or samples do not ascend.
absl::Status CheckBatch(const v1::TelemetryBatch& batch);

// Appends the records of `from` to `to`. REQUIRES: CheckBatch is OK for both, and all sequences of `from` are greater
// than those of `to`.
void AppendBatch(const v1::TelemetryBatch& from, v1::TelemetryBatch* to);

// Returns the records of `batch` with the sequence numbers `stored` + 1, `stored` + 2 and so on, up to the first number
// that no record has. Generated samples are counted as records but not returned. Sets `last` to the last of these
// sequence numbers, or to `stored` if no record has the number `stored` + 1. Does not set Event.sequence: the metric
// store sets it to the event's position in the job's history.
v1::TelemetryBatch ContiguousPart(const v1::TelemetryBatch& batch, uint64_t stored, uint64_t* last);

// The smallest sequence number of the batch's metric points. REQUIRES: the batch has metric points, and neither events
// nor samples.
uint64_t FirstPoint(const v1::TelemetryBatch& points);

// The largest sequence number of the batch's metric points; 0 if the batch has none.
uint64_t LastPoint(const v1::TelemetryBatch& batch);

}  // namespace ampd::points
