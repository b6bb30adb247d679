#pragma once

#include "ampd/v1/model_file.pb.h"
#include "graph/exported/exported_program.h"

namespace ampd::client {

// Fills `file->modules` with the modules that have parameters or nodes of the training program, and with all modules
// that contain them, in the order in which the model names them. REQUIRES: `file->tensors` is filled.
void AddModules(const graph::ExportedModel& model, v1::ModelFile* file);

// Fills `file->ops` with each kind of operation in the model's programs, what the import does with it, and how often it
// occurs.
void AddOps(const graph::ExportedModel& model, v1::ModelFile* file);

}  // namespace ampd::client
