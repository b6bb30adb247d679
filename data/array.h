#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ampd::data {

enum class ElementType { kBool, kUint8, kInt8, kInt16, kInt32, kInt64, kFloat16, kFloat32, kFloat64 };

// An array as a file holds it: row-major, little-endian, with exactly as many bytes as its shape requires.
struct Array {
  ElementType type = ElementType::kUint8;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

int64_t ElementBytes(ElementType type);
std::string ElementName(ElementType type);  // NumPy's name of the type: "uint8".
bool IsInteger(ElementType type);           // Also true for kBool, whose values are 0 or 1.

// Checks that every element of a kBool array is the byte 0 or 1. Otherwise returns DATA_ERROR naming the array and the
// element.
absl::Status CheckBooleans(const Array& array, const std::string& name);

// The number of bytes of an array of this type and shape; -1 if it exceeds `most` or the shape has a negative extent.
int64_t ArrayBytes(ElementType type, const std::vector<int64_t>& shape, int64_t most);

// Lists the first ten of a file's array names, for an error message.
std::string SomeNames(const std::vector<std::string>& names);

// The exact value of an IEEE half-precision number, given as its bits.
float HalfToFloat(uint16_t bits);

// Calls `f` with each element of the array in order: as int64_t if the element type is an integer, as double otherwise.
template <typename F>
void ForEachElement(const Array& array, F f) {
  const auto each = [&]<typename Stored>(Stored value, auto as) {
    const size_t count = array.bytes.size() / sizeof(Stored);
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(&value, array.bytes.data() + i * sizeof(Stored), sizeof(Stored));
      f(as(value));
    }
  };
  const auto integer = [](auto value) { return static_cast<int64_t>(value); };
  const auto real = [](auto value) { return static_cast<double>(value); };
  switch (array.type) {
    case ElementType::kBool:
    case ElementType::kUint8:
      return each(uint8_t{}, integer);
    case ElementType::kInt8:
      return each(int8_t{}, integer);
    case ElementType::kInt16:
      return each(int16_t{}, integer);
    case ElementType::kInt32:
      return each(int32_t{}, integer);
    case ElementType::kInt64:
      return each(int64_t{}, integer);
    case ElementType::kFloat16:
      return each(uint16_t{}, [](uint16_t bits) { return double{HalfToFloat(bits)}; });
    case ElementType::kFloat32:
      return each(float{}, real);
    case ElementType::kFloat64:
      return each(double{}, real);
  }
}

}  // namespace ampd::data
