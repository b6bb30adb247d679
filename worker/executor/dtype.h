#pragma once

#include "c10/core/ScalarType.h"
#include "graph/dtype.h"

namespace ampd::executor {

// The type under the name that LibTorch gives it.
at::ScalarType ToScalarType(graph::Dtype dtype);

}  // namespace ampd::executor
