#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/json_cursor.h"

// What an archive tells of its model in bfloat16: client/python/ampd/bf16_twin.py writes it.
//
//   extra/ampd.bf16_twin.json := {"format": "ampd.bf16_twin", "version": 1, "programs": {"train": P, "eval": P}}
//   P := {"meant": [tensor, ...], "follows": [tensor, ...]}
//
// A tensor is the only result of a node, float32 in the program, by the name that it has once the graphs within are
// taken apart (graph/exported/exported_inline.h). "meant": it was float32 in bfloat16's program too, or has other
// numbers there. "follows": it was bfloat16 there; so was a masked_fill with the least or the greatest number of its
// dtype, which is float32's in the program. Other nodes whose results have the dtype of what they read are in neither
// list, nor are casts that change nothing in either program.
namespace ampd::graph {

inline constexpr char kTwinFile[] = "extra/ampd.bf16_twin.json";

// Of one program.
struct TwinTensors {
  std::set<std::string> meant;
  std::set<std::string> follows;
};

// `json`: the file's content. Errors go to the cursor's status.
TwinTensors ReadTwin(const JsonCursor& json, const std::string& program);

// Sets ExportedNode::named_dtype. INVALID_ARGUMENT (reason BAD_EXPORT) for a tensor in both lists, and for one that is
// not what the lists may name.
absl::Status MarkNamedDtypes(const TwinTensors& twin, ExportedGraph& graph);

}  // namespace ampd::graph
