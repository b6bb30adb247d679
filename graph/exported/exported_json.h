#pragma once

#include <map>
#include <string>

#include "graph/exported/exported_program.h"
#include "graph/exported/json_cursor.h"

// Readers of the JSON in a .pt2 file, schema 8 of torch/_export/serde/schema.py. Errors go to the cursor's status.
namespace ampd::graph {

// Reads models/<name>.json.
ExportedProgram ReadProgram(const JsonCursor& json);

// The archive's folder for the entries of constants.
inline constexpr char kConstantsFolder[] = "data/constants/";

// Adds the tensors of a weights or constants table, with `suffix` appended to their names. `folder`: the folder of the
// archive that holds the tensors' entries.
void ReadStoredTensors(const JsonCursor& json, const std::string& folder, std::map<std::string, StoredTensor>& tensors,
                       const std::string& suffix = "");

}  // namespace ampd::graph
