#pragma once

#include "ampd/v1/model_file.pb.h"
#include "graph/exported/exported_program.h"

namespace ampd::client {

// Fills `modules`: the modules that hold parameters or nodes of the training program, and all modules that contain
// them, in the order in which the model names them. REQUIRES: the file's `tensors` are filled.
void AddModules(const graph::ExportedModel& model, v1::ModelFile* file);

// Fills `ops`.
void AddOps(const graph::ExportedModel& model, v1::ModelFile* file);

}  // namespace ampd::client
