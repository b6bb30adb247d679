#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "data/array.h"

namespace ampd::data {

// Returns an array of these elements. REQUIRES: T is the C++ type of `type`.
template <typename T>
Array Numbers(ElementType type, std::vector<int64_t> shape, const std::vector<T>& numbers) {
  Array array{.type = type, .shape = std::move(shape)};
  array.bytes.resize(numbers.size() * sizeof(T));
  if (!numbers.empty()) {
    std::memcpy(array.bytes.data(), numbers.data(), array.bytes.size());
  }
  return array;
}

}  // namespace ampd::data
