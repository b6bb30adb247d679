#pragma once

#include "ampd/v1/job_service.pb.h"
#include "precision/memory.h"

namespace ampd::precision {

// The bytes of an estimate as a message for clients; the other fields are unset.
v1::EstimateJobResponse::Candidate ToMessage(const MemoryEstimate& bytes);

}  // namespace ampd::precision
