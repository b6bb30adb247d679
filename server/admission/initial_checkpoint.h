#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/job_spec.pb.h"

namespace ampd::server {

// The checkpoint of `source` that an admitted spec's model.initial_checkpoint names, as a new job's start: with step 0,
// because the job begins there. Writes the step that was meant by "the newest" into the spec. Pure.
//
//   FAILED_PRECONDITION  the source has not ended: it would drop the checkpoint (WRONG_STATE)
//   NOT_FOUND            it keeps no such checkpoint (CHECKPOINT_NOT_FOUND)
//   INVALID_ARGUMENT     its model has other tensors, with the number and the first names of each kind. Of an exported
//                        model the worker tells so, which has its file.
//
// REQUIRES: `source` is the job that the field names.
absl::StatusOr<v1::Checkpoint> ResolveInitialCheckpoint(const v1::Job& source, v1::JobSpec* spec);

}  // namespace ampd::server
