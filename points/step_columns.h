#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"

// Telemetry steps are sent and stored column by column: each column has one entry per step. These functions access them
// row by row; a row is one step.
namespace ampd::points {

// The largest number of phases of a step. A model with several losses, such as a GAN, has one phase for each loss.
inline constexpr int kMaxPhases = 16;
inline constexpr size_t kMaxPhaseNameBytes = 256;

inline int NumSteps(const v1::StepColumns& steps) { return steps.sequence_size(); }

// Brings steps from older trainers and stores to the current form: fills empty columns with zeros, because an older
// trainer does not know newer columns, and converts a GAN's older generator columns to phases.
void CompleteColumns(v1::StepColumns* steps);

// Returns the last loss of each phase. Metrics of older trainers have no phases; for a GAN of such a trainer, returns
// its discriminator's and its generator's loss.
std::vector<v1::PhaseLoss> PhaseLosses(const v1::FinalMetrics& metrics);

// Returns INVALID_ARGUMENT (reason MALFORMED_TELEMETRY) if one of these conditions is not met:
// * All columns have the same length. An optional column may also be empty.
// * Each sequence number is greater than the one before it, and the first is greater than 0.
// * There are at most kMaxPhases phases. Their names are different and have 1 to kMaxPhaseNameBytes bytes.
absl::Status CheckSteps(const v1::StepColumns& steps);

// Appends the rows [begin, end) of `from` to `to`. If only one of the two has a phase, the rows of the other get zeros
// in the columns of this phase. If only one of the two has an optional column, the rows of the other get NaN in this
// column. REQUIRES: 0 <= begin <= end <= NumSteps(from); CheckSteps is OK for both.
void AppendSteps(const v1::StepColumns& from, int begin, int end, v1::StepColumns* to);

// Whether the steps have columns that only a newer version of ampd knows. Appending rows to such steps would leave
// these columns too short.
bool HasUnknownColumns(const v1::StepColumns& steps);

// The index of the first row whose sequence is greater than `sequence`; NumSteps if there is none.
int FirstStepAfter(const v1::StepColumns& steps, uint64_t sequence);

}  // namespace ampd::points
