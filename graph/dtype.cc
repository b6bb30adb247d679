#include "graph/dtype.h"

#include <array>
#include <cstddef>

namespace ampd::graph {
namespace {

struct DtypeRow {
  std::string_view name;
  int64_t item_size_bytes;
  bool floating_point;
};

// In the order of the enumeration.
constexpr std::array<DtypeRow, 10> kRows = {{
    {"float64", 8, true},
    {"float32", 4, true},
    {"bfloat16", 2, true},
    {"float16", 2, true},
    {"float8_e4m3fn", 1, true},
    {"float8_e5m2", 1, true},
    {"int64", 8, false},
    {"int32", 4, false},
    {"uint8", 1, false},
    {"bool", 1, false},
}};

const DtypeRow& RowOf(Dtype dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view DtypeName(Dtype dtype) { return RowOf(dtype).name; }

std::optional<Dtype> DtypeFromName(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) {
      return static_cast<Dtype>(i);
    }
  }
  return std::nullopt;
}

int64_t ItemSizeBytes(Dtype dtype) { return RowOf(dtype).item_size_bytes; }

bool IsFloatingPoint(Dtype dtype) { return RowOf(dtype).floating_point; }

}  // namespace ampd::graph
