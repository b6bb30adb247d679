#pragma once

#include "ampd/v1/model_file.pb.h"
#include "graph/exported/exported_program.h"

namespace ampd::client {

// Fills `file->modules`: the modules that hold parameters or nodes of the training program, and all modules that
// contain them, in the order in which the model names them. REQUIRES: `file->tensors` is filled.
void AddModules(const graph::ExportedModel& model, v1::ModelFile* file);

// Fills `file->ops`: each kind of operation in the model's programs, with what the import does with it and how often
// it occurs.
void AddOps(const graph::ExportedModel& model, v1::ModelFile* file);

}  // namespace ampd::client
