#pragma once

#include <cstdint>

#include "ampd/v1/job_spec.pb.h"
#include "graph/exported/import.h"

namespace ampd::models {

// The job's settings for a model that torch.export wrote. `sequence_length`: length of its texts; 0: it reads no texts.
graph::ImportOptions ImportOptionsOf(const v1::ExportedModelSpec& spec, int64_t sequence_length);

}  // namespace ampd::models
