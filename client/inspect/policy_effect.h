#pragma once

#include "ampd/v1/model_file.pb.h"
#include "client/inspect/model_file.h"
#include "graph/exported/import.h"

namespace ampd::client {

// Fills `policies`: of each preset of the question what it does to the training program, as the trainer would resolve
// it with AdamW and no rules, and where a batch was named the memory of a step, as the server tells it of its own
// models.
void AddPolicies(const graph::ImportedPrograms& imported, ModelQuestion question, v1::ModelFile* file);

}  // namespace ampd::client
