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
// nested graphs are inlined (graph/exported/exported_inline.h).
//
// "meant" lists the tensors that are float32 in the twin too: the model itself asks for float32. It also lists the
// result of each node that has other constants in the twin.
//
// "follows" lists the tensors that are bfloat16 in the twin. It also lists the result of each masked_fill with the
// smallest or the largest number of its dtype, although this constant differs in the twin.
//
// Neither list has the results of two kinds of nodes with the same constants in both programs: a node whose result has
// the dtype of the tensors that it reads, and a cast to the dtype that its tensor already has in the twin.
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
