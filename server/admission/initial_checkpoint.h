#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/job_spec.pb.h"

namespace ampd::server {

// Finds the checkpoint of `source` that an admitted spec's model.initial_checkpoint names. A new job starts from it at
// step 0, so the returned checkpoint has step 0. If the spec asks for the newest checkpoint, that checkpoint's step is
// written into the spec. Pure.
//
//   FAILED_PRECONDITION  the source has not ended and could still drop the checkpoint (WRONG_STATE)
//   NOT_FOUND            the source keeps no such checkpoint (CHECKPOINT_NOT_FOUND)
//   INVALID_ARGUMENT     tensors of the source's model are missing, unexpected or of another shape; the message has the
//                        number and the first names of each kind. Exported models are not checked here; the worker
//                        checks them.
//
// REQUIRES: `source` is the job that the field names.
absl::StatusOr<v1::Checkpoint> ResolveInitialCheckpoint(const v1::Job& source, v1::JobSpec* spec);

}  // namespace ampd::server
