#pragma once

#include <string_view>
#include <vector>

// What the engine knows of each op that a graph may use. An op that is not in the table is not allowed in a model.
namespace ampd::graph {

// How a precision policy treats an op.
enum class OpClass {
  kLower,    // computes in the policy's compute dtype: products of matrices, convolutions
  kFp32,     // computes in fp32: exponentials, losses, long sums
  kPromote,  // several inputs are cast to the widest of them
  kBanned,   // refused below fp32
  kAsInput,  // runs in the dtype of its inputs (OpRow::result_like)
};

std::string_view OpClassName(OpClass op_class);

// A row of the table. Argument names are those of the op's schema.
struct OpRow {
  std::string_view op;  // "aten.conv2d.default"
  OpClass op_class = OpClass::kAsInput;
  // Arguments that stay in fp32 beside an input of a lower dtype: the op computes in fp32 inside and returns the
  // input's dtype. Weights and statistics of norms.
  std::vector<std::string_view> fp32_arguments = {};
  // The argument whose dtype its results have, whatever the others have; empty: the widest of its inputs.
  std::string_view result_like = {};
  // An argument of which it reads the shape alone; empty: none.
  std::string_view shape_argument = {};
  // What the op keeps for the backward pass: names of arguments, "result", or "result.mask" and the like for tensors
  // that it makes inside.
  std::vector<std::string_view> saves = {};
  // Buffers that it writes although its schema may not say so, when its `training_argument` is true.
  std::vector<std::string_view> writes = {};
  bool random = false;
  // The bool argument that tells training from evaluation; empty: none.
  std::string_view training_argument = {};
  // The number that says how much is dropped, of an op that draws for nothing else: nothing is drawn where it is 0 or
  // left out. Empty: none.
  std::string_view dropout_argument = {};
  // Its results have no gradient.
  bool no_gradient = false;
  // The argument whose memory its results show; empty: they have their own.
  std::string_view views = {};
  // The gradient of its result, as it is, is that of each argument of the result's shape.
  bool passes_gradient = false;
  // The op of which this is the form that writes its argument "self" and returns it; empty: none.
  std::string_view in_place_of = {};
};

// Null when the op is not allowed.
const OpRow* FindOp(std::string_view op);

// The op that one of ours computes through fp32; any other op itself.
std::string_view ComputedBy(std::string_view op);

// All rows, ordered by name.
const std::vector<OpRow>& AllOps();

}  // namespace ampd::graph
