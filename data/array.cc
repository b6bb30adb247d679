#include "data/array.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/data_file.h"

namespace ampd::data {

int64_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kBool:
    case ElementType::kUint8:
    case ElementType::kInt8:
      return 1;
    case ElementType::kInt16:
    case ElementType::kFloat16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kFloat32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kFloat64:
      return 8;
  }
  return 0;
}

std::string ElementName(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return "bool";
    case ElementType::kUint8:
      return "uint8";
    case ElementType::kInt8:
      return "int8";
    case ElementType::kInt16:
      return "int16";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
  }
  return "";
}

bool IsInteger(ElementType type) {
  return type != ElementType::kFloat16 && type != ElementType::kFloat32 && type != ElementType::kFloat64;
}

absl::Status CheckBooleans(const Array& array, const std::string& name) {
  if (array.type != ElementType::kBool) {
    return absl::OkStatus();
  }
  const auto odd = std::find_if(array.bytes.begin(), array.bytes.end(), [](uint8_t byte) { return byte > 1; });
  return odd == array.bytes.end() ? absl::OkStatus()
                                  : DataError(name, absl::StrCat("element ", odd - array.bytes.begin(), " is the byte ",
                                                                 *odd, "; a boolean is 0 or 1"));
}

int64_t ArrayBytes(ElementType type, const std::vector<int64_t>& shape, int64_t most) {
  int64_t bytes = ElementBytes(type);
  bool fits = true;
  for (const int64_t extent : shape) {
    fits = fits && extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes);
  }
  return fits && bytes <= most ? bytes : -1;
}

std::string SomeNames(const std::vector<std::string>& names) {
  constexpr size_t kMost = 10;
  const auto end = names.begin() + static_cast<int64_t>(std::min(kMost, names.size()));
  return absl::StrCat(absl::CEscape(absl::StrJoin(names.begin(), end, ", ")), names.size() > kMost ? ", ..." : "");
}

float HalfToFloat(uint16_t bits) {
  constexpr int kMantissaBits = 10;
  constexpr int kBias = 15;
  const int exponent = bits >> kMantissaBits & 0x1f;
  const int mantissa = bits & 0x3ff;
  float value = 0;
  if (exponent == 0x1f) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 0x400), exponent - kBias - kMantissaBits);
  }
  return bits & 0x8000 ? -value : value;
}

}  // namespace ampd::data
