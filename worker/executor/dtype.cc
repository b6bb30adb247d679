#include "worker/executor/dtype.h"

namespace ampd::executor {

at::ScalarType ToScalarType(graph::Dtype dtype) {
  using graph::Dtype;
  switch (dtype) {
    case Dtype::kFloat64:
      return at::kDouble;
    case Dtype::kFloat32:
      return at::kFloat;
    case Dtype::kBFloat16:
      return at::kBFloat16;
    case Dtype::kFloat16:
      return at::kHalf;
    case Dtype::kFloat8E4M3:
      return at::kFloat8_e4m3fn;
    case Dtype::kFloat8E5M2:
      return at::kFloat8_e5m2;
    case Dtype::kInt64:
      return at::kLong;
    case Dtype::kInt32:
      return at::kInt;
    case Dtype::kUint8:
      return at::kByte;
    case Dtype::kBool:
      return at::kBool;
  }
  return at::ScalarType::Undefined;
}

}  // namespace ampd::executor
