#pragma once

#include <optional>

#include "ATen/core/function_schema.h"
#include "ATen/core/ivalue.h"
#include "graph/graph.h"

// Converts constants of a graph to boxed values, which kernels take.
namespace ampd::executor {

// A constant as an argument of the given schema. An int is widened to a float or to a list of ints if the schema has
// one, and a number for a Tensor becomes a wrapped number (0-d, takes no part in type promotion). Returns nothing if
// the schema does not accept the constant. REQUIRES: the operand is not a value, a list of values or a Shape.
std::optional<c10::IValue> ToIValue(const graph::Operand& operand, const c10::Argument& argument);

// A constant as an argument of one of our own ops, which have no schema: numbers, lists and strings stay unchanged, and
// a dtype becomes an int64.
c10::IValue ToIValue(const graph::Operand& operand);

}  // namespace ampd::executor
