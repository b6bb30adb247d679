#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/job_spec.pb.h"

namespace ampd::server {

// Returns the checkpoint of `source` that an admitted spec's model.initial_checkpoint names, as the start of a new job.
// The returned checkpoint has step 0, because the job begins there. If the spec asks for the newest checkpoint, its
// step is written into the spec. Pure.
//
//   FAILED_PRECONDITION  the source has not ended and could still drop the checkpoint (WRONG_STATE)
//   NOT_FOUND            the source keeps no such checkpoint (CHECKPOINT_NOT_FOUND)
//   INVALID_ARGUMENT     the source's model has other tensors; the message has the number and the first names of each
//                        kind. Exported models are checked by the worker, which has the file.
//
// REQUIRES: `source` is the job that the field names.
absl::StatusOr<v1::Checkpoint> ResolveInitialCheckpoint(const v1::Job& source, v1::JobSpec* spec);

}  // namespace ampd::server
