#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"

// Steps are sent and stored column by column; these functions access them row by row. A row is one step.
namespace ampd::points {

// The largest number of phases of a step. A model has one for each of its losses.
inline constexpr int kMaxPhases = 16;

inline int NumSteps(const v1::StepColumns& steps) { return steps.sequence_size(); }

// Fills empty columns with zeros, because an older trainer does not know newer columns, and replaces the generator's
// columns of older trainers and stores by phases.
void CompleteColumns(v1::StepColumns* steps);

// The last loss of each phase; of a record that an older trainer made, those of a GAN's two.
std::vector<v1::PhaseLoss> PhaseLosses(const v1::FinalMetrics& metrics);

// INVALID_ARGUMENT (reason MALFORMED_TELEMETRY) when columns differ in length, a sequence is 0 or not greater than the
// one before, or phases have no name, share one, or are more than kMaxPhases.
absl::Status CheckSteps(const v1::StepColumns& steps);

// Appends the rows [begin, end) of `from`. Rows without a phase that others have get zeros for it. REQUIRES:
// 0 <= begin <= end <= NumSteps(from); CheckSteps is OK for both.
void AppendSteps(const v1::StepColumns& from, int begin, int end, v1::StepColumns* to);

// The first row whose sequence is greater than `sequence`; NumSteps if there is none.
int FirstStepAfter(const v1::StepColumns& steps, uint64_t sequence);

}  // namespace ampd::points
