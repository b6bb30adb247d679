#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/formats/zip_archive.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/json_cursor.h"

// Constants of a file's evaluation program. torch.export stores each program's constants separately, even if they are
// equal. It numbers the inline constants of each program from 0, so lifted_tensor_0 of one program may be
// lifted_tensor_1 of the other, or be absent there. The evaluation program's "own" constants are those that differ from
// the training program's constant of the same name, or exist only in the evaluation program. They are named
// "<name>@eval".
namespace ampd::graph {

// The keys of the tables of constants in ExportedModel::json.
inline constexpr char kConstants[] = "constants";
inline constexpr char kEvalConstants[] = "eval_constants";

// Returns the evaluation program's table of constants, reduced to its own ones; an empty string if it has none.
// `train`, `eval`: each program's table, the archive's data/constants/*_constants_config.json. Constants of the same
// name and layout are compared by content, but at most 1,024 of them with together at most 64 MiB; further ones count
// as the program's own. Returns the same errors as ReadExportedModel. REQUIRES: both tables are valid JSON.
absl::StatusOr<std::string> OwnConstants(const ZipArchive& archive, std::string_view train, std::string_view eval);

// Makes the evaluation program read its own constants. Without this call it would read the training program's constants
// of the same names. Of the evaluation program's own constants, adds those that the program reads to the model's state,
// under the names "<name>@eval", and gives these names to the program's inputs. `json`: the table of constants that
// OwnConstants returned for the model's file. An error is put into the status of `json`. REQUIRES: the model has an
// evaluation program, and the model's state has been read.
void UseOwnConstants(const JsonCursor& json, ExportedModel& model);

// The evaluation program's constant inputs that the training program does not have.
std::vector<ExportedInput> ConstantsOfEvaluation(const ExportedModel& model);

}  // namespace ampd::graph
