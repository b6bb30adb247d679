#pragma once

#include <optional>

#include "ATen/core/function_schema.h"
#include "ATen/core/ivalue.h"
#include "graph/graph.h"

// Converts constants of a graph to IValues, the boxed values that LibTorch's kernels take.
namespace ampd::executor {

// Converts a constant to an argument of LibTorch's op schema. An int becomes a float or a list of ints if the argument
// has that type. If the argument is a Tensor, a number becomes a wrapped number (a 0-d tensor that takes no part in
// type promotion). Returns nullopt if the argument does not accept the constant. REQUIRES: the operand is a constant,
// that is, no value of the graph (graph::ValueId), no list of such values, and no Shape.
std::optional<c10::IValue> ToIValue(const graph::Operand& operand, const c10::Argument& argument);

// Converts a constant to an argument of an "ampd." op. These ops have no schema, so numbers, lists and strings stay
// unchanged; a dtype becomes an int64.
c10::IValue ToIValue(const graph::Operand& operand);

}  // namespace ampd::executor
