#pragma once

#include <cstdint>

#include "ampd/v1/job_spec.pb.h"
#include "graph/exported/import.h"

namespace ampd::models {

// Converts the job's settings for a model that torch.export wrote to the options of its import. `sequence_length` is
// the length of the model's texts in tokens; 0: it reads no texts.
graph::ImportOptions ImportOptionsOf(const v1::ExportedModelSpec& spec, int64_t sequence_length);

}  // namespace ampd::models
