#pragma once

#include "absl/types/span.h"

namespace ampd::graph {

// The schema of an op, as text: "Tensor self, int dim=0 -> Tensor". The notation is that of LibTorch, with these
// differences:
//
//   * The marks of memory that results share with arguments are left out.
//   * TensorOrNumber is a Tensor in place of which torch.export may write a number. Only such tensors may be numbers.
//
// Texts are read by SchemaOf (op_schemas.h).
struct SchemaRow {
  const char* op;  // "aten.select.int"
  const char* schema;
};

// The schemas of all ops of the op table, and of "aten.type_as.default", which the import replaces by a cast. Ordered
// by name. tests/worker/executor/op_schemas_test.cc compares the schemas with those of LibTorch.
absl::Span<const SchemaRow> SchemaRows();

}  // namespace ampd::graph
