#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/formats/zip_archive.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/json_cursor.h"

// Constants of a file's program for evaluation. torch.export stores those of each program apart, also where they are
// the same, and numbers the inline ones of each from 0: lifted_tensor_0 of the one may be lifted_tensor_1 of the other,
// or none of its. What the evaluation program has otherwise than that for training, or alone, is its own, and is called
// "<name>@eval".
namespace ampd::graph {

// The tables in ExportedModel::json.
inline constexpr char kConstants[] = "constants";
inline constexpr char kEvalConstants[] = "eval_constants";

// Of the evaluation program's table, a table of what is its own; empty where nothing is. `train`, `eval`: the archive's
// data/constants/*_constants_config.json. Constants of one name and layout are the same where their content is, which
// is read for at most 1,024 of them and 64 MiB: beyond, they are the program's own. Errors as ReadExportedModel.
// REQUIRES: both are sound JSON.
absl::StatusOr<std::string> OwnConstants(const ZipArchive& archive, std::string_view train, std::string_view eval);

// Has the evaluation program read its own constants, and adds these to the state. `json`: OwnConstants of the file.
// Errors go to the cursor's status. REQUIRES: the model has an evaluation program; its state is read.
void UseOwnConstants(const JsonCursor& json, ExportedModel& model);

// The evaluation program's inputs that are constants which the training program does not have.
std::vector<ExportedInput> ConstantsOfEvaluation(const ExportedModel& model);

}  // namespace ampd::graph
