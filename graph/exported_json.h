#pragma once

#include <map>
#include <string>

#include "graph/exported_program.h"
#include "graph/json_cursor.h"

// Readers of the JSON in a .pt2 file, schema 8 of torch/_export/serde/schema.py. Errors go to the cursor's status.
namespace ampd::graph {

// Of models/<name>.json.
ExportedProgram ReadProgram(const JsonCursor& json);

// Adds the tensors of a weights or constants table; `folder` is where their entries lie.
void ReadStoredTensors(const JsonCursor& json, const std::string& folder, std::map<std::string, StoredTensor>& tensors);

}  // namespace ampd::graph
