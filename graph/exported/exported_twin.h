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
// A listed tensor is float32 in the float32 program, and is the only result of its node. It is listed by its name after
// nested graphs are inlined (graph/exported/exported_inline.h). "meant": the tensor is float32 in the twin too, so the
// model itself asks for float32. The results of nodes that have other constants in the twin are listed here as well.
// "follows": the tensor is bfloat16 in the twin. "follows" also has each masked_fill with the smallest or the largest
// number of its dtype, although this constant is another number in the twin. Two kinds of nodes are in neither list,
// unless their constants differ: nodes that take the result's dtype from the tensors that they read, and casts to the
// dtype that the tensor already has in the twin.
namespace ampd::graph {

inline constexpr char kTwinFile[] = "extra/ampd.bf16_twin.json";

// The lists "meant" and "follows" of one program.
struct TwinTensors {
  std::set<std::string> meant;
  std::set<std::string> follows;
};

// Reads the lists "meant" and "follows" of one program. `json`: the file's content. Errors go to the cursor's status.
TwinTensors ReadTwin(const JsonCursor& json, const std::string& program);

// Sets ExportedNode::named_dtype of the nodes whose results are in the lists: kMeant for "meant", kFollows for
// "follows". Returns INVALID_ARGUMENT (reason BAD_EXPORT) if a tensor is in both lists, is not float32, or is not the
// only result of its node.
absl::Status MarkNamedDtypes(const TwinTensors& twin, ExportedGraph& graph);

}  // namespace ampd::graph
