#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// Element types of tensors, as a graph names them.
namespace ampd::graph {

enum class Dtype { kFloat64, kFloat32, kBFloat16, kFloat16, kFloat8E4M3, kFloat8E5M2, kInt64, kInt32, kUint8, kBool };

// The name that Python gives the type, for example "bfloat16".
std::string_view DtypeName(Dtype dtype);

// The type of a name that DtypeName gives; nothing for any other name.
std::optional<Dtype> DtypeFromName(std::string_view name);

// Bytes of one element.
int64_t ItemSizeBytes(Dtype dtype);

bool IsFloatingPoint(Dtype dtype);

// The greatest finite number of a floating-point type, exactly; the least is its negative. REQUIRES: IsFloatingPoint.
double Greatest(Dtype dtype);

}  // namespace ampd::graph
