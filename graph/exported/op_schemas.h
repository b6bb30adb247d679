#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

// The arguments and results of the ops of the op table, as LibTorch declares them. A file may contain calls that
// LibTorch would not take. Code behind the import relies on the declared arguments, so the import refuses other calls.
namespace ampd::graph {

// An argument that an op declares.
struct ArgumentSchema {
  enum class Kind {
    kTensor,
    kTensorOrNumber,      // A tensor for which torch.export may write a number: the 1 of `x + 1`.
    kTensorList,          // A list of tensors.
    kOptionalTensorList,  // A list of tensors of which some may be missing.
    kNumber,              // An integer, a floating-point number or a bool.
    kInteger,
    kReal,  // A floating-point number, or an integer in its place.
    kTruth,
    kText,
    kDtype,
    kIntegerList,
    kPlace,  // A device, layout or random generator, which the trainer chooses.
  };
  std::string name;
  Kind kind = Kind::kTensor;
  bool may_be_none = false;      // The call may pass Python's None.
  bool may_be_left_out = false;  // The op has a default for it.
  bool takes_one = false;        // One integer may stand for the whole list.
};

struct OpSchema {
  std::vector<ArgumentSchema> arguments;
  size_t num_results = 1;  // 0: the op returns a list of tensors.
};

// Returns the schema of an op; null if the import takes no such op.
const OpSchema* SchemaOf(std::string_view op);

// Returns what is wrong with the arguments and the number of results of a node, as words that follow its name in a
// message; an empty string if its op takes the call. Checks that every argument that the op requires is given, that
// each argument is of the declared kind, and that no other argument is given.
std::string FaultOfSchema(const Node& node);

}  // namespace ampd::graph
