#include "graph/dtype.h"

#include <array>
#include <cstddef>
#include <limits>

namespace ampd::graph {
namespace {

struct DtypeRow {
  std::string_view name;
  int64_t item_size_bytes;
  double greatest;  // The largest finite number; 0 for a type that is not floating-point.
};

// One row per Dtype, in the order of the enumeration.
constexpr std::array<DtypeRow, 10> kRows = {{
    {"float64", 8, std::numeric_limits<double>::max()},
    {"float32", 4, std::numeric_limits<float>::max()},
    {"bfloat16", 2, 0x1.FEp127},
    {"float16", 2, 65504},
    {"float8_e4m3fn", 1, 448},
    {"float8_e5m2", 1, 57344},
    {"int64", 8, 0},
    {"int32", 4, 0},
    {"uint8", 1, 0},
    {"bool", 1, 0},
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

bool IsFloatingPoint(Dtype dtype) { return RowOf(dtype).greatest > 0; }

double Greatest(Dtype dtype) { return RowOf(dtype).greatest; }

}  // namespace ampd::graph
