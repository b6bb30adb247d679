#pragma once

#include "ampd/v1/job_service.pb.h"
#include "precision/cost/memory.h"

namespace ampd::precision {

// Converts an estimate to a message for clients. Only the fields for bytes are set.
v1::EstimateJobResponse::Candidate ToMessage(const MemoryEstimate& bytes);

}  // namespace ampd::precision
