#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/json_cursor.h"

// The comparison of a model with its bfloat16 twin, which is the same model exported in bfloat16.
// client/python/ampd/bf16_twin.py writes the comparison into the archive:
//
//   extra/ampd.bf16_twin.json := {"format": "ampd.bf16_twin", "version": 1, "programs": {"train": P, "eval": P}}
//   P := {"meant": [tensor, ...], "follows": [tensor, ...]}
//
// Each tensor is the only result of a node and is float32 in the program. The lists give its name after nested graphs
// are inlined (graph/exported/exported_inline.h). "meant": it is float32 in the bfloat16 program too, or has other
// numbers there. "follows": it is bfloat16 there; this includes a masked_fill with the smallest or the largest number
// of its dtype, which in the program is float32's. Other nodes whose results have the dtype of their inputs are in
// neither list, and so are casts that change nothing in both programs.
namespace ampd::graph {

inline constexpr char kTwinFile[] = "extra/ampd.bf16_twin.json";

// The two lists of one program.
struct TwinTensors {
  std::set<std::string> meant;
  std::set<std::string> follows;
};

// Reads the two lists of one program. `json`: the file's content. Errors go to the cursor's status.
TwinTensors ReadTwin(const JsonCursor& json, const std::string& program);

// Sets ExportedNode::named_dtype. INVALID_ARGUMENT (reason BAD_EXPORT) for a tensor in both lists, and for one that the
// lists may not name.
absl::Status MarkNamedDtypes(const TwinTensors& twin, ExportedGraph& graph);

}  // namespace ampd::graph
