#pragma once

#include <string_view>
#include <vector>

// The engine's knowledge of each op that a graph may use. Models may not use ops that are not in the table.
namespace ampd::graph {

// How a precision policy treats an op.
enum class OpClass {
  kLower,    // Computes in the policy's compute dtype: matrix products, convolutions.
  kFp32,     // Computes in fp32: exponentials, losses, long sums.
  kPromote,  // Inputs are cast to the widest of their dtypes.
  kBanned,   // Refused by policies that compute below fp32.
  kAsInput,  // Runs in the dtype of its inputs (OpRow::result_like).
};

std::string_view OpClassName(OpClass op_class);

// A row of the table. Argument names are those of the op's schema.
struct OpRow {
  std::string_view op;  // "aten.conv2d.default"
  OpClass op_class = OpClass::kAsInput;
  // Arguments that stay in fp32 beside an input of a lower dtype: weights and statistics of norms. The op computes in
  // fp32 internally and returns the input's dtype.
  std::vector<std::string_view> fp32_arguments = {};
  // The argument whose dtype the results have, whatever the other arguments' dtypes; empty: the results have the widest
  // dtype of the inputs.
  std::string_view result_like = {};
  // An argument of which the op reads only the shape; empty: none.
  std::string_view shape_argument = {};
  // Tensors that the op saves for the backward pass. Each is the name of an argument, "result", or for an internal
  // tensor a name such as "result.mask".
  std::vector<std::string_view> saves = {};
  // Arguments, all buffers, that the op writes if `training_argument` is true, although its schema may not show it.
  std::vector<std::string_view> writes = {};
  bool random = false;
  // The bool argument that selects training or evaluation; empty: none.
  std::string_view training_argument = {};
  // For an op that draws random numbers only for dropout: the argument with the dropout probability. The op draws none
  // if this is 0 or missing. Empty: the op has no such argument.
  std::string_view dropout_argument = {};
  // The results have no gradient.
  bool no_gradient = false;
  // The argument of which the results are views; empty: the results have their own memory.
  std::string_view views = {};
  // The gradient of the result is also, unchanged, the gradient of each argument that has the result's shape.
  bool passes_gradient = false;
  // For an in-place op, which writes its argument "self" and returns it: the op's out-of-place form. Empty: the op is
  // not in-place.
  std::string_view in_place_of = {};
};

// Returns the op's row; null if models may not use the op.
const OpRow* FindOp(std::string_view op);

// If `op` is one of ampd's ops that stand for an ATen op ("ampd.linear_wide", "ampd.layer_norm", a fused batch norm),
// returns that ATen op. Otherwise returns `op` itself.
std::string_view ComputedBy(std::string_view op);

// All rows, ordered by name.
const std::vector<OpRow>& AllOps();

}  // namespace ampd::graph
