#include "worker/train/plan/fields.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "graph/heads.h"
#include "graph/losses.h"
#include "graph/print.h"
#include "graph/vocabulary.h"
#include "worker/executor/dtype.h"
#include "worker/train/plan/labels.h"
#include "worker/train/plan/spec_error.h"

namespace ampd::train {
namespace {

constexpr char kImages[] = "images";

int64_t ElementsOf(const graph::Shape& shape) {
  int64_t elements = 1;
  for (const graph::Dim& dim : shape) {
    elements *= dim.is_batch() ? 1 : dim.factor();
  }
  return elements;
}

// The shape (C, H, W) of an image input; empty if the input is not an image.
std::vector<int64_t> ImageShapeOf(const graph::Shape& shape) {
  constexpr size_t kRankOfImages = 4;
  return shape.size() == kRankOfImages ? SampleShapeOf(shape) : std::vector<int64_t>();
}

// Whether this input is noise that the trainer draws: the input "noise" of a model with several losses, such as a GAN.
bool IsNoise(const graph::Graph& model, graph::ValueId input) {
  return model.value(input).name == "noise" && !graph::LossesOf(model).empty();
}

// Whether this input receives the labels. Only a model that computes its own loss has such an input.
bool IsLabels(const graph::Graph& model, graph::ValueId input) {
  return model.value(input).name == "labels" && graph::HeadOf(model) == graph::Head::kOwnLoss;
}

// The element type in which arrays are read for an input with this dtype; nullopt if no array can provide it.
std::optional<data::ElementType> ElementTypeOf(graph::Dtype dtype) {
  switch (dtype) {
    case graph::Dtype::kFloat32:
      return data::ElementType::kFloat32;
    case graph::Dtype::kInt64:
      return data::ElementType::kInt64;
    case graph::Dtype::kInt32:
      return data::ElementType::kInt32;
    case graph::Dtype::kUint8:
      return data::ElementType::kUint8;
    case graph::Dtype::kBool:
      return data::ElementType::kBool;
    default:
      return std::nullopt;
  }
}

absl::StatusOr<data::Field> FieldOf(const graph::Graph& model, graph::ValueId input) {
  const graph::Value& value = model.value(input);
  const auto type = ElementTypeOf(value.type.dtype);
  const graph::Shape& shape = value.type.shape;
  const bool is_of_samples = !shape.empty() && shape[0] == graph::Dim::Batch() &&
                             std::none_of(shape.begin() + 1, shape.end(), [](auto dim) { return dim.is_batch(); });
  if (!type.has_value() || !is_of_samples) {
    return SpecError(absl::StrCat("the model's input ", value.name, " is ", graph::ToText(value.type),
                                  "; arrays are read as float32, int64, int32, uint8 or bool of [B, ...]"));
  }
  const auto numbers = graph::NumbersOf(model, value.name);
  return data::Field{.name = value.name,
                     .type = *type,
                     .shape = SampleShapeOf(shape),
                     .vocabulary = numbers.has_value() ? std::optional(numbers->num_numbers) : std::nullopt,
                     .ignored = numbers.has_value() ? numbers->ignored : std::nullopt};
}

// Checks that the data has every input of the model except noise and labels, and that the model takes the data's first
// input. If the model has logits, also checks the kind of data: a language model needs texts with one label per token,
// and any other model needs other data.
absl::Status CheckNames(const data::Dataset& data, const graph::Graph& model) {
  const std::vector<std::string_view> names = data.input_names();
  if (!model.FindInput(names.front()).has_value()) {
    return SpecError(absl::StrCat("the data has ", std::string(names.front()), " and the model takes ",
                                  model.value(model.inputs().front()).name));
  }
  for (const graph::ValueId input : model.inputs()) {
    const std::string& name = model.value(input).name;
    const bool is_known = std::find(names.begin(), names.end(), name) != names.end();
    if (!is_known && !IsLabels(model, input) && !IsNoise(model, input)) {
      return SpecError(absl::StrCat("the model takes ", name, ", which the data does not have"));
    }
  }
  const bool is_language_model = graph::HeadOf(model) == graph::Head::kLanguageModel;
  if (model.FindOutput("logits").has_value() && is_language_model != data.is_text()) {
    return SpecError(data.is_text()
                         ? "the data has a label for each position, and the model predicts one for each sample"
                         : "the data has a label for each sample, and the model predicts one for each position");
  }
  return absl::OkStatus();
}

// Checks that samples have the size that the model takes, and that images are channels first.
absl::Status CheckSize(const data::Dataset& data, const graph::TensorType& type) {
  const int64_t wanted = ElementsOf(type.shape);
  if (data.sample_elements() != wanted) {
    return SpecError(absl::StrCat("a sample has ", data.sample_elements(), " elements and the model takes ", wanted));
  }
  const std::vector<int64_t> given = data.image_shape();
  const std::vector<int64_t> taken = ImageShapeOf(type.shape);
  if (!given.empty() && !taken.empty() && given != taken) {
    return SpecError(absl::StrCat("an image is (", absl::StrJoin(given, ", "), ") and the model takes (",
                                  absl::StrJoin(taken, ", "),
                                  "), channels first; channels_last says how a file has them"));
  }
  return absl::OkStatus();
}

// Describes the dtype and shape of a sample for messages, without the batch dimension: "float32 of (1, 28, 28)". Only
// float32, bool and int64 occur here, because data of any other dtype is read in the model's dtype and always fits.
std::string TypeText(const at::Tensor& sample) {
  return absl::StrCat(sample.is_floating_point()          ? "float32"
                      : sample.scalar_type() == at::kBool ? "bool"
                                                          : "int64",
                      " of (", absl::StrJoin(sample.sizes().slice(1), ", "), ")");
}

// Checks the dtype and size of each input in the first sample. A boolean mask fits an input of any dtype.
absl::Status CheckTypes(const data::Dataset& data, const graph::Graph& model) {
  if (data.size() == 0) {
    return absl::OkStatus();
  }
  const data::Dataset::Samples first = data.Get({0});
  for (const std::string_view name : data.input_names()) {
    const auto input = model.FindInput(name);
    if (!input.has_value()) {
      continue;
    }
    const auto other = first.others.find(std::string(name));
    const at::Tensor& given = other == first.others.end() ? first.images : other->second;
    const graph::TensorType& wanted = model.type(*input);
    const bool is_of_type =
        given.scalar_type() == at::kBool || given.scalar_type() == executor::ToScalarType(wanted.dtype);
    if (!is_of_type || given.numel() != ElementsOf(wanted.shape)) {
      return SpecError(absl::StrCat("the data has ", std::string(name), " as ", TypeText(given),
                                    " and the model takes ", graph::ToText(wanted)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TakenArrays> ArraysTakenBy(const graph::Graph& model) {
  TakenArrays taken{.images = model.FindInput(kImages).has_value(), .fields = {}};
  for (const graph::ValueId input : model.inputs()) {
    if (model.value(input).name != kImages && !IsNoise(model, input) && !IsLabels(model, input)) {
      AMPD_ASSIGN_OR_RETURN(data::Field field, FieldOf(model, input));
      taken.fields.push_back(std::move(field));
    }
  }
  taken.images = taken.images || taken.fields.empty();
  return taken;
}

std::optional<std::vector<int64_t>> NoiseShapeOf(const graph::Graph& model) {
  const auto noise = model.FindInput("noise");
  return noise.has_value() && IsNoise(model, *noise) ? std::optional(SampleShapeOf(model.type(*noise).shape))
                                                     : std::nullopt;
}

absl::Status CheckInputs(const data::Dataset& data, const graph::Graph& model) {
  AMPD_RETURN_IF_ERROR(CheckNames(data, model));
  AMPD_RETURN_IF_ERROR(CheckSize(data, model.type(*model.FindInput(data.input_names().front()))));
  return CheckTypes(data, model);
}

absl::Status CheckSamples(const data::Dataset& data, const graph::Graph& model) {
  AMPD_RETURN_IF_ERROR(CheckInputs(data, model));
  return CheckLabels(data, model);
}

}  // namespace ampd::train
