#pragma once

#include "c10/core/ScalarType.h"
#include "graph/dtype.h"

namespace ampd::executor {

// LibTorch's name for the type.
at::ScalarType ToScalarType(graph::Dtype dtype);

}  // namespace ampd::executor
