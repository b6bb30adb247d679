#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker_service.pb.h"

// Steps are sent and stored column by column; these functions access them row by row.
namespace ampd::server {

inline int NumSteps(const v1::StepColumns& steps) { return steps.sequence_size(); }

// Fills empty columns with zeros, because an older trainer does not know newer columns. GAN columns stay empty.
void FillMissingColumns(v1::StepColumns* steps);

// INVALID_ARGUMENT when the columns differ in length, or a sequence is 0 or not greater than the one before.
absl::Status CheckSteps(const v1::StepColumns& steps);

// Appends the rows [begin, end) of `from`. REQUIRES: 0 <= begin <= end <= NumSteps(from), CheckSteps(from) is OK.
void AppendSteps(const v1::StepColumns& from, int begin, int end, v1::StepColumns* to);

// The first row whose sequence is greater than `sequence`; NumSteps if there is none.
int FirstStepAfter(const v1::StepColumns& steps, uint64_t sequence);

// The number of metric points, steps and evaluations, in a batch.
inline int NumPoints(const v1::TelemetryBatch& batch) { return NumSteps(batch.steps()) + batch.evals_size(); }

// Smallest and largest sequence of steps, evaluations, events and samples; 0 and 0 for an empty batch.
std::pair<uint64_t, uint64_t> SequenceRange(const v1::TelemetryBatch& batch);

// Returns the part of `batch` that follows `stored` without a gap, without samples. Its events have no positions yet.
// Sets `last` to the sequence of its end.
v1::TelemetryBatch ContiguousPart(const v1::TelemetryBatch& batch, uint64_t stored, uint64_t* last);

// The smallest sequence of the batch's points. REQUIRES: the batch has points, and neither events nor samples.
uint64_t FirstPoint(const v1::TelemetryBatch& points);

// The largest sequence of the batch's points; 0 if there are none.
uint64_t LastPoint(const v1::TelemetryBatch& batch);

}  // namespace ampd::server
