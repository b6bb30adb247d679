#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "worker/kernels/tensor_row.h"

// Tensors for tests of the kernels' passes over parameters and gradients, in every storage layout. Their numbers are
// random and lie between guard bytes, which show writes out of bounds.
namespace ampd::kernels {

using Bytes = std::vector<std::byte>;

inline constexpr Format kFormats[] = {Format::kFloat32, Format::kBFloat16, Format::kFloat16};
inline constexpr size_t kGuardBytes = 64;
inline constexpr std::byte kGuard{0xa5};

inline size_t BytesOf(Format format) { return format == Format::kFloat32 ? 4 : 2; }

inline const char* NameOf(Format format) {
  return format == Format::kFloat32 ? "fp32" : format == Format::kBFloat16 ? "bf16" : "fp16";
}

// Random numbers of both signs, with exponents from `lowest_exponent` to `highest_exponent`.
inline std::vector<float> RandomNumbers(uint64_t seed, int64_t count, int lowest_exponent = -12,
                                        int highest_exponent = 3) {
  SeededRandom random(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) {
    const uint64_t bits = random.Next();
    const double mantissa = 1 + static_cast<double>(bits >> 12) * 0x1p-52;
    const int exponent = lowest_exponent + static_cast<int>((bits & 0x3ff) % (highest_exponent - lowest_exponent + 1));
    number = static_cast<float>(std::ldexp((bits & 0x400) != 0 ? mantissa : -mantissa, exponent));
  }
  return numbers;
}

template <typename T>
Bytes BytesFrom(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

// Returns the values that `bytes` hold. An incomplete value at the end is left out.
template <typename T>
std::vector<T> ValuesFrom(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  }
  return values;
}

inline Bytes Stored(const std::vector<float>& numbers, Format format) {
  if (format == Format::kFloat32) {
    return BytesFrom(numbers);
  }
  std::vector<uint16_t> narrow;
  for (const float number : numbers) {
    narrow.push_back(format == Format::kBFloat16 ? ToBFloat16(number) : ToFloat16(number));
  }
  return BytesFrom(narrow);
}

// Returns the numbers that `bytes` hold in the format, as fp32.
inline std::vector<float> Widened(const Bytes& bytes, Format format) {
  if (format == Format::kFloat32) {
    return ValuesFrom<float>(bytes);
  }
  std::vector<float> numbers;
  for (const uint16_t half : ValuesFrom<uint16_t>(bytes)) {
    numbers.push_back(format == Format::kBFloat16 ? FromBFloat16(half) : FromFloat16(half));
  }
  return numbers;
}

// The formats in which a parameter's gradient, value and moments are stored.
struct Layout {
  Format gradient = Format::kFloat32;
  Format parameter = Format::kFloat32;
  Format moments = Format::kFloat32;
  Format working = Format::kFloat32;
  bool has_working = false;
  bool remainder = false;
  bool stochastic = false;
  bool average = false;

  std::string Name() const {
    return std::string(NameOf(gradient)) + " gradients, " + NameOf(parameter) + " parameters" +
           (remainder    ? " with a remainder"
            : stochastic ? " rounded stochastically"
                         : "") +
           ", " + NameOf(moments) + " moments" +
           (has_working ? std::string(", ") + NameOf(working) + " working copy" : "") + (average ? ", average" : "");
  }
};

// Returns the layouts that policies use, and a layout for each pair of a gradient's format and a working copy's format.
inline std::vector<Layout> Layouts() {
  constexpr Format kBf16 = Format::kBFloat16;
  std::vector<Layout> layouts = {
      {.gradient = kBf16, .moments = kBf16},
      {.gradient = kBf16, .working = kBf16, .has_working = true, .average = true},
      {.gradient = kBf16, .moments = kBf16, .working = kBf16, .has_working = true},
      {.gradient = kBf16, .parameter = kBf16, .remainder = true},
      {.gradient = Format::kFloat32, .parameter = kBf16, .moments = kBf16, .remainder = true, .average = true},
      {.gradient = kBf16, .parameter = kBf16},
      {.gradient = Format::kFloat16, .parameter = Format::kFloat16},
      {.gradient = kBf16, .parameter = kBf16, .stochastic = true},
      {.gradient = kBf16, .parameter = kBf16, .moments = kBf16, .stochastic = true, .average = true},
  };
  for (const Format gradient : kFormats) {
    for (const Format working : kFormats) {
      layouts.push_back({.gradient = gradient, .working = working, .has_working = true});
    }
  }
  return layouts;
}

// One parameter's arrays on the host: everything that a step reads and writes.
class HostTensor {
 public:
  HostTensor(uint64_t seed, int64_t count, const Layout& layout) : count_(count), layout_(layout) {
    std::vector<float> second = RandomNumbers(seed + 3, count);
    for (float& value : second) {
      value = std::abs(value);
    }
    SetGradient(RandomNumbers(seed, count));
    SetParameter(RandomNumbers(seed + 1, count));
    Set("first", Stored(RandomNumbers(seed + 2, count), layout.moments));
    Set("second", Stored(second, layout.moments));
    Set("accumulated", BytesFrom(RandomNumbers(seed + 4, count)));
    if (layout.average) {
      Set("average", BytesFrom(RandomNumbers(seed + 5, count)));
    }
    if (layout.has_working) {
      Set("working", Bytes(static_cast<size_t>(count) * BytesOf(layout.working)));
    }
  }

  void SetGradient(const std::vector<float>& numbers) { Set("gradient", Stored(numbers, layout_.gradient)); }

  void SetParameter(const std::vector<float>& numbers) {
    if (!layout_.remainder) {
      Set("parameter", Stored(numbers, layout_.parameter));
      return;
    }
    std::vector<uint16_t> upper, lower;
    for (const float number : numbers) {
      upper.push_back(UpperHalf(number));
      lower.push_back(LowerHalf(number));
    }
    Set("parameter", BytesFrom(upper));
    Set("remainder", BytesFrom(lower));
  }

  TensorRow Row() {
    return RowAt([this](const std::string& name) -> void* {
      const auto it = arrays_.find(name);
      return it == arrays_.end() ? nullptr : it->second.data() + kGuardBytes;
    });
  }

  // Returns this tensor's row in the table that the kernels read. `place` returns the address of an array by its name,
  // or null for an array that does not exist.
  TensorRow RowAt(const std::function<void*(const std::string&)>& place) const {
    TensorRow row;
    row.gradient = place("gradient");
    row.accumulated = static_cast<float*>(place("accumulated"));
    row.parameter = place("parameter");
    row.remainder = static_cast<uint16_t*>(place("remainder"));
    row.first_moment = place("first");
    row.second_moment = place("second");
    row.average = static_cast<float*>(place("average"));
    row.working = place("working");
    row.count = count_;
    row.learning_rate = 1e-2 * static_cast<double>(1 + count_ % 3);
    row.weight_decay = 0.1 * static_cast<double>(count_ % 2);
    row.gradient_format = layout_.gradient;
    row.parameter_format = layout_.parameter;
    row.moment_format = layout_.moments;
    row.working_format = layout_.working;
    row.stochastic = layout_.stochastic;
    row.number = static_cast<uint32_t>(count_);
    return row;
  }

  // The arrays by name, including their guards.
  const std::map<std::string, Bytes>& arrays() const { return arrays_; }
  int64_t count() const { return count_; }
  std::string Name() const { return layout_.Name() + ", " + std::to_string(count_) + " elements"; }

 private:
  void Set(const std::string& name, const Bytes& content) {
    Bytes guarded(content.size() + 2 * kGuardBytes, kGuard);
    std::copy(content.begin(), content.end(), guarded.begin() + kGuardBytes);
    arrays_[name] = std::move(guarded);
  }

  int64_t count_;
  Layout layout_;
  std::map<std::string, Bytes> arrays_;
};

}  // namespace ampd::kernels
