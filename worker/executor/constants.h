#pragma once

#include <optional>

#include "ATen/core/function_schema.h"
#include "ATen/core/ivalue.h"
#include "graph/graph.h"

// Constants of a graph as the boxed values that kernels take.
namespace ampd::executor {

// A constant as an argument of the given schema: an int for a float or a list of ints is widened, a number for a Tensor
// becomes a wrapped number (0-d, does not take part in type promotion). Nothing when the schema does not take it.
// REQUIRES: the operand is not a value, a list of values or a Shape.
std::optional<c10::IValue> ToIValue(const graph::Operand& operand, const c10::Argument& argument);

// The same without a schema, for ops of ours: numbers, lists and strings as they are, a dtype as an int64.
c10::IValue ToIValue(const graph::Operand& operand);

}  // namespace ampd::executor
