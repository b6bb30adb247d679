#pragma once

#include <cstdint>

#include "ampd/v1/job_spec.pb.h"
#include "graph/exported/import.h"

namespace ampd::models {

// What a job says of a model that torch.export wrote. `sequence_length`: of its texts; 0: they are none.
graph::ImportOptions ImportOptionsOf(const v1::ExportedModelSpec& spec, int64_t sequence_length);

}  // namespace ampd::models
