#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/formats/zip_archive.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/json_cursor.h"

// Constants of a file's evaluation program. torch.export stores the constants of each program separately, even equal
// ones, and numbers the inline ones of each from 0: lifted_tensor_0 of one program may be lifted_tensor_1 of the other,
// or absent there. A constant of the evaluation program that differs from the training program's, or exists only there,
// is called its own, and is named "<name>@eval".
namespace ampd::graph {

// The keys of the tables of constants in ExportedModel::json.
inline constexpr char kConstants[] = "constants";
inline constexpr char kEvalConstants[] = "eval_constants";

// Returns the evaluation program's table of constants, reduced to its own ones; an empty string if it has none.
// `train`, `eval`: each program's table, the archive's data/constants/*_constants_config.json. Constants of the same
// name and layout are compared by content, for at most 1,024 of them and 64 MiB; the rest count as the program's own.
// Errors as ReadExportedModel. REQUIRES: both tables are valid JSON.
absl::StatusOr<std::string> OwnConstants(const ZipArchive& archive, std::string_view train, std::string_view eval);

// Makes the evaluation program read its own constants, and adds these to the model's state. `json`: the table that
// OwnConstants returned for the file. Errors go to the cursor's status. REQUIRES: the model has an evaluation program,
// and the model's state has been read.
void UseOwnConstants(const JsonCursor& json, ExportedModel& model);

// The evaluation program's constant inputs that the training program does not have.
std::vector<ExportedInput> ConstantsOfEvaluation(const ExportedModel& model);

}  // namespace ampd::graph
