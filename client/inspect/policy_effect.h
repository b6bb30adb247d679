#pragma once

#include "ampd/v1/model_file.pb.h"
#include "client/inspect/model_file.h"
#include "graph/exported/import.h"

namespace ampd::client {

// Fills `policies`: the effect of each preset of the question on the training program, resolved as the trainer would
// with AdamW and no rules. If the question has a batch size, adds the memory of a step, estimated as the server does
// for its own models.
void AddPolicies(const graph::ImportedPrograms& imported, ModelQuestion question, v1::ModelFile* file);

}  // namespace ampd::client
