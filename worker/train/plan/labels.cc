#include "worker/train/plan/labels.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "graph/heads.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "graph/vocabulary.h"
#include "worker/executor/dtype.h"
#include "worker/train/plan/spec_error.h"

namespace ampd::train {
namespace {

using Kind = data::Targets::Kind;

absl::StatusOr<Labels> LabelsOfOwnLoss(const graph::Graph& model) {
  const auto input = model.FindInput("labels");
  if (!input.has_value()) {
    return Labels();
  }
  const graph::TensorType& type = model.type(*input);
  const bool is_number = type.dtype == graph::Dtype::kFloat32;
  const bool is_known = is_number || type.dtype == graph::Dtype::kInt64;
  if (!is_known || type.shape.empty() || type.shape[0] != graph::Dim::Batch()) {
    return SpecError(absl::StrCat("the model's input labels is ", graph::ToText(type),
                                  "; labels are int64[B, ...] or float32[B, ...]"));
  }
  if (is_number) {
    return Labels{.num_classes = 0, .targets = {{.kind = Kind::kNumbers, .shape = SampleShapeOf(type.shape)}}};
  }
  const auto classes = graph::NumbersOf(model, "labels");
  data::Targets targets{.kind = Kind::kIntegers, .shape = SampleShapeOf(type.shape)};
  if (classes.has_value()) {
    targets.num_classes = classes->num_numbers;
    targets.ignored = classes->ignored;
  }
  return Labels{.num_classes = targets.num_classes.value_or(std::numeric_limits<int64_t>::max()),
                .targets = std::move(targets)};
}

// The type and shape of the labels of one sample, for messages: "int64 of (3)".
std::string TypeText(bool is_number, const std::vector<int64_t>& shape) {
  return absl::StrCat(is_number ? "float32" : "int64", " of (", absl::StrJoin(shape, ", "), ")");
}

}  // namespace

std::vector<int64_t> SampleShapeOf(const graph::Shape& shape) {
  std::vector<int64_t> extents;
  std::transform(shape.begin() + 1, shape.end(), std::back_inserter(extents),
                 [](const graph::Dim& dim) { return dim.factor(); });
  return extents;
}

absl::StatusOr<Labels> LabelsTakenBy(const graph::Graph& model) {
  const std::optional<graph::Head> head = graph::HeadOf(model);
  if (!head.has_value()) {
    return Labels();
  }
  if (*head == graph::Head::kOwnLoss) {
    return LabelsOfOwnLoss(model);
  }
  const graph::Shape& shape = model.type(*model.FindOutput(graph::OutputNamesOf(*head).front())).shape;
  switch (*head) {
    case graph::Head::kRegression:
      return Labels{.num_classes = 0, .targets = {{.kind = Kind::kNumbers, .shape = SampleShapeOf(shape)}}};
    case graph::Head::kMultiLabel:
      return Labels{.num_classes = 0, .targets = {{.kind = Kind::kDecisions, .shape = SampleShapeOf(shape)}}};
    default:
      return Labels{.num_classes = shape.back().factor(), .targets = std::nullopt};
  }
}

bool AreAllIgnored(const at::Tensor& labels, std::optional<int64_t> ignored) {
  return ignored.has_value() && labels.defined() && !labels.is_floating_point() && labels.numel() > 0 &&
         labels.eq(*ignored).all().item<bool>();
}

bool IsMeanOfNoLabels(const at::Tensor& labels, int64_t num_micro_batches, std::optional<int64_t> ignored,
                      bool has_label_count) {
  if (!ignored.has_value() || has_label_count) {
    return AreAllIgnored(labels, ignored);
  }
  const int64_t size = labels.size(0) / num_micro_batches;
  for (int64_t i = 0; i < num_micro_batches; ++i) {
    if (AreAllIgnored(labels.narrow(0, i * size, size), ignored)) {
      return true;
    }
  }
  return false;
}

absl::Status CheckLabels(const data::Dataset& data, const graph::Graph& model) {
  if (!graph::HeadOf(model).has_value()) {
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(const graph::Graph program, graph::WithLossHead(model));
  const auto input = program.FindInput("labels");
  if (!input.has_value() || data.size() == 0) {
    return absl::OkStatus();
  }
  const at::Tensor given = data.Get({0}).labels;
  const graph::TensorType& wanted = program.type(*input);
  int64_t num_wanted = 1;  // Labels per sample. A graph may join the labels of all samples in one dimension.
  for (const graph::Dim& dim : wanted.shape) {
    num_wanted *= dim.factor();
  }
  if (given.scalar_type() == executor::ToScalarType(wanted.dtype) && given.numel() == num_wanted) {
    return absl::OkStatus();
  }
  return SpecError(
      absl::StrCat("a sample's label is ", TypeText(given.is_floating_point(), given.sizes().slice(1).vec()),
                   " and the model takes ", TypeText(graph::IsFloatingPoint(wanted.dtype), SampleShapeOf(wanted.shape)),
                   "; numbers, and 0 or 1 for each class, are read from data of npz and safetensors"));
}

}  // namespace ampd::train
