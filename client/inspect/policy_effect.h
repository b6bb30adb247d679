#pragma once

#include "ampd/v1/model_file.pb.h"
#include "client/inspect/model_file.h"
#include "graph/exported/import.h"

namespace ampd::client {

// Fills `file->policies`: for each preset in the question, its effect on the training program. Presets are resolved in
// the same way as for a job with AdamW and no rules. If the question has a batch size, adds the memory of a step,
// estimated in the same way as the server's estimate for built-in models.
void AddPolicies(const graph::ImportedPrograms& imported, ModelQuestion question, v1::ModelFile* file);

}  // namespace ampd::client
