#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Element types of tensors, as a graph names them.
namespace ampd::graph {

enum class Dtype { kFloat64, kFloat32, kBFloat16, kFloat16, kFloat8E4M3, kFloat8E5M2, kInt64, kInt32, kUint8, kBool };

// Python's name for the type, for example "bfloat16".
std::string_view DtypeName(Dtype dtype);
inline std::string DtypeText(Dtype dtype) { return std::string(DtypeName(dtype)); }

// The inverse of DtypeName; nothing for any other name.
std::optional<Dtype> DtypeFromName(std::string_view name);

// Bytes of one element.
int64_t ItemSizeBytes(Dtype dtype);

bool IsFloatingPoint(Dtype dtype);

// The largest finite number of a floating-point type, exactly; the smallest is its negative. REQUIRES: IsFloatingPoint.
double Greatest(Dtype dtype);

}  // namespace ampd::graph
