#include "worker/data/field.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "data/data_file.h"

namespace ampd::data {
namespace {

// Returns the extents from dimension `first` on, without extents of 1.
std::vector<int64_t> ExtentsOf(const std::vector<int64_t>& shape, size_t first) {
  std::vector<int64_t> extents;
  std::copy_if(shape.begin() + static_cast<int64_t>(std::min(first, shape.size())), shape.end(),
               std::back_inserter(extents), [](int64_t extent) { return extent != 1; });
  return extents;
}

std::string NameOf(Targets::Kind kind) {
  switch (kind) {
    case Targets::Kind::kNumbers:
      return "numbers";
    case Targets::Kind::kDecisions:
      return "0 or 1";
    case Targets::Kind::kIntegers:
      return "integers";
  }
  return "";
}

// Whether an element is a valid value of this kind.
template <typename Value>
bool MayBe(Targets::Kind kind, Value value) {
  return kind == Targets::Kind::kDecisions ? value == 0 || value == 1 : std::isfinite(static_cast<float>(value));
}

// Converts the elements to `Number`, and writes them to `out`. Returns the position of the first element that `kind`
// rejects, or -1.
template <typename Number>
int64_t Convert(const Array& array, Targets::Kind kind, Number* out) {
  int64_t count = 0;
  int64_t wrong = -1;
  ForEachElement(array, [&](auto value) {
    wrong = wrong < 0 && !MayBe(kind, value) ? count : wrong;
    out[count++] = static_cast<Number>(value);
  });
  return wrong;
}

// The type and shape of the field's array, for messages: "int64 of (samples, 26)".
std::string TypeText(const Field& field) {
  std::string text = absl::StrCat(ElementName(field.type), " of (samples");
  for (const int64_t extent : field.shape) {
    absl::StrAppend(&text, ", ", extent);
  }
  return text + ")";
}

// Checks that integers are in [0, vocabulary) or `ignored`. `what`: the word for such an integer in messages.
absl::Status CheckVocabulary(const Array& array, const std::string& name, const char* what, int64_t vocabulary,
                             std::optional<int64_t> ignored) {
  int64_t count = 0;
  std::optional<int64_t> wrong;  // Position of the first wrong element.
  int64_t number = 0;
  ForEachElement(array, [&](auto value) {
    if (!wrong.has_value() && (value < 0 || value >= vocabulary) && ignored != static_cast<int64_t>(value)) {
      wrong = count;
      number = static_cast<int64_t>(value);
    }
    ++count;
  });
  return !wrong.has_value()
             ? absl::OkStatus()
             : DataError(name, absl::StrCat(
                                   "sample ", *wrong / (count / array.shape[0]), " has ", what, " that is ", number,
                                   "; the model takes 0 to ", vocabulary - 1,
                                   ignored.has_value() ? absl::StrCat(", and ", *ignored, ", which it ignores") : ""));
}

}  // namespace

at::ScalarType ToScalarType(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return at::kBool;
    case ElementType::kUint8:
      return at::kByte;
    case ElementType::kInt8:
      return at::kChar;
    case ElementType::kInt16:
      return at::kShort;
    case ElementType::kInt32:
      return at::kInt;
    case ElementType::kInt64:
      return at::kLong;
    case ElementType::kFloat16:
      return at::kHalf;
    case ElementType::kFloat32:
      return at::kFloat;
    case ElementType::kFloat64:
      return at::kDouble;
  }
  return at::kByte;
}

std::string ShapeText(const std::vector<int64_t>& shape) { return absl::StrCat("(", absl::StrJoin(shape, ", "), ")"); }

bool CanBe(ElementType wanted, ElementType given) {
  if (given == wanted || given == ElementType::kBool) {
    return true;
  }
  return IsInteger(wanted) ? IsInteger(given) && ElementBytes(given) < ElementBytes(wanted)
                           : wanted == ElementType::kFloat32 && !IsInteger(given);
}

absl::Status CheckField(const FieldArray& given) {
  const auto& [field, array, name] = given;
  const std::vector<int64_t>& shape = array.shape;
  const bool fits =
      shape.size() == field.shape.size() + 1 && std::equal(shape.begin() + 1, shape.end(), field.shape.begin());
  if (!fits || !CanBe(field.type, array.type)) {
    return DataError(name, absl::StrCat(ElementName(array.type), " of ", ShapeText(shape), "; the model's input ",
                                        field.name, " takes ", TypeText(field)));
  }
  return array.bytes.empty() ? DataError(name, absl::StrCat("of ", ShapeText(shape), "; it has no sample"))
                             : absl::OkStatus();
}

absl::StatusOr<at::Tensor> TakeField(FieldArray given) {
  Array& array = given.array;
  if (given.field.vocabulary.has_value() && IsInteger(array.type)) {
    AMPD_RETURN_IF_ERROR(
        CheckVocabulary(array, given.name, "an element", *given.field.vocabulary, given.field.ignored));
  }
  at::Tensor samples = at::empty(array.shape, ToScalarType(given.field.type));
  samples.copy_(at::from_blob(array.bytes.data(), array.shape, ToScalarType(array.type)));
  AMPD_RETURN_IF_ERROR(CheckFinite(samples, given.name));
  return samples;
}

absl::StatusOr<at::Tensor> TakeTargets(const Array& array, const std::string& name, const Targets& targets) {
  const bool are_integers = targets.kind == Targets::Kind::kIntegers;
  std::vector<int64_t> shape = {array.shape[0]};
  shape.insert(shape.end(), targets.shape.begin(), targets.shape.end());
  if (ExtentsOf(array.shape, 1) != ExtentsOf(targets.shape, 0) || (are_integers && !IsInteger(array.type))) {
    return DataError(
        name, absl::StrCat(ElementName(array.type), " of ", ShapeText(array.shape),
                           "; the model takes labels that are ", NameOf(targets.kind), " of ", ShapeText(shape)));
  }
  if (are_integers && targets.num_classes.has_value()) {
    AMPD_RETURN_IF_ERROR(CheckVocabulary(array, name, "a label", *targets.num_classes, targets.ignored));
  }
  at::Tensor labels = at::empty(shape, are_integers ? at::kLong : at::kFloat);
  const int64_t wrong = are_integers ? Convert(array, targets.kind, labels.data_ptr<int64_t>())
                                     : Convert(array, targets.kind, labels.data_ptr<float>());
  if (wrong < 0) {
    return labels;
  }
  const float label = labels.data_ptr<float>()[wrong];  // Integers are never wrong, so the labels are float here.
  const int64_t sample = wrong / (labels.numel() / labels.size(0));
  return DataError(name,
                   absl::StrCat("sample ", sample, " has a label that is ", label,
                                targets.kind == Targets::Kind::kDecisions ? "; it must be 0 or 1" : " in float32"));
}

absl::Status CheckFinite(const at::Tensor& samples, const std::string& name) {
  if (samples.scalar_type() != at::kFloat) {
    return absl::OkStatus();
  }
  const float* element = samples.data_ptr<float>();
  for (int64_t i = 0; i < samples.numel(); ++i) {
    if (!std::isfinite(element[i])) {
      return DataError(name, absl::StrCat("sample ", i * samples.size(0) / samples.numel(), " has an element that is ",
                                          element[i], " in float32"));
    }
  }
  return absl::OkStatus();
}

}  // namespace ampd::data
