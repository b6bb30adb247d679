#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/array.h"

// What a model takes of a file's arrays, and the arrays as it takes them: N samples along the first dimension. Errors
// have the reason DATA_ERROR and begin with the name that messages have for the array.
namespace ampd::data {

// An array for the model's input of its name.
struct Field {
  std::string name;
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> shape;         // of one sample's
  std::optional<int64_t> vocabulary;  // of integers: they are 0 to below it
  std::optional<int64_t> ignored;     // of integers with a vocabulary: or this one
};

// Its array, as a file has it.
struct FieldArray {
  Field field;
  Array array;
  std::string name;  // what messages call it
};

// Labels that are not a class a sample: (N, ...), with as many extents above 1, in the order of `shape`.
struct Targets {
  enum class Kind {
    kNumbers,    // of any type, finite in float32: float
    kDecisions,  // 0 or 1, of any type: float
    kIntegers,   // of any integer type: int64
  };
  Kind kind = Kind::kNumbers;
  std::vector<int64_t> shape;          // of one sample's
  std::optional<int64_t> num_classes;  // of integers: they are 0 to below it
  std::optional<int64_t> ignored;      // of integers with classes: or this one
};

// The type under the name that LibTorch gives it.
at::ScalarType ToScalarType(ElementType type);

// "(3, 28, 28)".
std::string ShapeText(const std::vector<int64_t>& shape);

// Whether a field of type `wanted` may be read from an array of type `given`: of the same, of booleans, of narrower
// integers for integers, of any floating-point type for float32. Bytes are no numbers of float32: images map them.
bool CanBe(ElementType wanted, ElementType given);

// Whether the array has a sample, and is of a type and shape that the field may be read from.
absl::Status CheckField(const FieldArray& given);

// (N, ...) of the field's type and shape. Numbers in float32 are finite, integers within the vocabulary. REQUIRES:
// CheckField(given) is OK.
absl::StatusOr<at::Tensor> TakeField(FieldArray given);

// (N, ...) as the model has them.
absl::StatusOr<at::Tensor> TakeTargets(const Array& array, const std::string& name, const Targets& targets);

// Names the first of the samples (N, ...) with an element that is not finite. Types but float32 have none.
absl::Status CheckFinite(const at::Tensor& samples, const std::string& name);

}  // namespace ampd::data
