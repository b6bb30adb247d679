#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/array.h"

// Checks the arrays of a file that a model takes, and converts them to tensors. The first dimension of an array counts
// its N samples. Errors have the reason DATA_ERROR and begin with the array's name in messages.
namespace ampd::data {

// Describes the array that a model's input of the same name takes.
struct Field {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> shape;         // Shape of one sample.
  std::optional<int64_t> vocabulary;  // Integers must be in [0, vocabulary).
  std::optional<int64_t> ignored;     // One more integer that is allowed, if `vocabulary` is set.
};

// A field, and its array as it was read from the file.
struct FieldArray {
  Field field;
  Array array;
  std::string name;  // Name of the array in messages.
};

// Describes labels other than one class per sample. Their array is (N, ...). The shape of one sample in the array must
// equal `shape`, apart from extents of 1.
struct Targets {
  enum class Kind {
    kNumbers,    // Any type. Must be finite in float32; converted to float.
    kDecisions,  // Any type. Must be 0 or 1; converted to float.
    kIntegers,   // Any integer type; converted to int64.
  };
  Kind kind = Kind::kNumbers;
  std::vector<int64_t> shape;          // Shape of one sample.
  std::optional<int64_t> num_classes;  // Integers must be in [0, num_classes).
  std::optional<int64_t> ignored;      // One more integer that is allowed, if `num_classes` is set.
};

// LibTorch's type for elements of `type`.
at::ScalarType ToScalarType(ElementType type);

// A shape as text for messages: "(3, 28, 28)".
std::string ShapeText(const std::vector<int64_t>& shape);

// Whether a field of type `wanted` may be read from an array of type `given`. Every type may be read as the same type,
// booleans as every type, integers as wider integers, and every floating-point type as float32. Integers may not be
// read as float32, because only images map bytes to numbers.
bool CanBe(ElementType wanted, ElementType given);

// Checks that the array has at least one sample, and that the field may be read from the array's type and shape.
absl::Status CheckField(const FieldArray& given);

// Converts the array to a tensor (N, ...) of the field's type and shape. Checks that numbers in float32 are finite, and
// that integers are within the vocabulary. REQUIRES: CheckField(given) is OK.
absl::StatusOr<at::Tensor> TakeField(FieldArray given);

// Converts the array to a tensor (N, ...) of targets in the model's shape.
absl::StatusOr<at::Tensor> TakeTargets(const Array& array, const std::string& name, const Targets& targets);

// Checks that all elements of `samples`, (N, ...), are finite. The error names the first sample with a non-finite
// element. Types other than float32 are always finite.
absl::Status CheckFinite(const at::Tensor& samples, const std::string& name);

}  // namespace ampd::data
