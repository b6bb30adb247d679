#pragma once

#include <cstdint>

#include "ampd/v1/job_spec.pb.h"
#include "graph/exported/import.h"

namespace ampd::models {

// Returns the options for the import of a model that torch.export wrote, from the job's settings for the model.
// `sequence_length` is the length of the model's texts in tokens; 0: it reads no texts.
graph::ImportOptions ImportOptionsOf(const v1::ExportedModelSpec& spec, int64_t sequence_length);

}  // namespace ampd::models
