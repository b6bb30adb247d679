#pragma once

#include "c10/core/ScalarType.h"
#include "graph/dtype.h"

namespace ampd::executor {

// Converts a dtype of a graph to LibTorch's ScalarType.
at::ScalarType ToScalarType(graph::Dtype dtype);

}  // namespace ampd::executor
