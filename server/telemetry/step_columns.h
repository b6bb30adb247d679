#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker_service.pb.h"

// Steps travel and rest column by column; these functions treat them row by row.
namespace ampd::server {

inline int NumSteps(const v1::StepColumns& steps) { return steps.sequence_size(); }

// Fills columns that are empty with zeros: an older trainer does not know a newer column. Those of a GAN stay empty.
void FillMissingColumns(v1::StepColumns* steps);

// INVALID_ARGUMENT when the columns differ in length or a sequence is 0 or does not grow.
absl::Status CheckSteps(const v1::StepColumns& steps);

// Appends the rows [begin, end) of `from`. REQUIRES: 0 <= begin <= end <= NumSteps(from), CheckSteps(from) is OK.
void AppendSteps(const v1::StepColumns& from, int begin, int end, v1::StepColumns* to);

// The first row whose sequence is greater than `sequence`; NumSteps when there is none.
int FirstStepAfter(const v1::StepColumns& steps, uint64_t sequence);

// How many metric points, steps and evaluations, a batch holds.
inline int NumPoints(const v1::TelemetryBatch& batch) { return NumSteps(batch.steps()) + batch.evals_size(); }

// Smallest and largest sequence of steps, evaluations, events and samples; 0 and 0 for an empty batch.
std::pair<uint64_t, uint64_t> SequenceRange(const v1::TelemetryBatch& batch);

// The part of `batch` that follows `stored` without a gap, without samples; its events still without positions. `last`
// becomes the sequence it ends with.
v1::TelemetryBatch ContiguousPart(const v1::TelemetryBatch& batch, uint64_t stored, uint64_t* last);

// The least sequence of the batch's points. REQUIRES: there is one, and neither an event nor a sample.
uint64_t FirstPoint(const v1::TelemetryBatch& points);

// The greatest sequence of the batch's points; 0 when there is none.
uint64_t LastPoint(const v1::TelemetryBatch& batch);

}  // namespace ampd::server
