// The datasets that are arrays of a file: CIFAR's images, NumPy's arrays, tensors of a safetensors file.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "worker/data/array.h"
#include "worker/data/cifar.h"
#include "worker/data/dataset.h"
#include "worker/data/npy.h"
#include "worker/data/npz.h"
#include "worker/data/tensor_arrays.h"

namespace ampd::data {
namespace {

at::ScalarType ScalarTypeOf(ElementType type) {
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

// (N, D), (N, 1, H, W) or (N, C, H, W); uint8 or float. Owns its elements.
at::Tensor ImagesOf(Array& array, bool channels_last) {
  at::Tensor images = at::from_blob(array.bytes.data(), array.shape, ScalarTypeOf(array.type));
  if (array.shape.size() == 3) {
    images = images.unsqueeze(1);
  } else if (array.shape.size() == 4 && channels_last) {
    images = images.permute({0, 3, 1, 2});
  }
  at::Tensor owned = at::empty(images.sizes(), array.type == ElementType::kUint8 ? at::kByte : at::kFloat);
  owned.copy_(images);
  return owned;
}

bool ReadsLabels(const Dataset::Arrays& source) { return source.num_classes > 0 || source.targets.has_value(); }

int64_t ElementsOf(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// What the samples take in memory, which may be many times what they took in a compressed file.
int64_t SampleBytes(const Dataset::Arrays& source) {
  const int64_t of_image = source.images.type == ElementType::kUint8 ? 1 : sizeof(float);
  const int64_t num_labels = ReadsLabels(source) ? ElementsOf(source.labels.shape) : source.images.shape[0];
  return ElementsOf(source.images.shape) * of_image + num_labels * static_cast<int64_t>(sizeof(int64_t));
}

absl::Status CheckFinite(const at::Tensor& images, const std::string& name) {
  if (images.scalar_type() != at::kFloat) {
    return absl::OkStatus();
  }
  const float* element = images.data_ptr<float>();
  for (int64_t i = 0; i < images.numel(); ++i) {
    if (!std::isfinite(element[i])) {
      return DataError(name, absl::StrCat("sample ", i * images.size(0) / images.numel(), " has an element that is ",
                                          element[i], " in float32"));
    }
  }
  return absl::OkStatus();
}

// (N) for N images.
absl::StatusOr<at::Tensor> LabelsOf(const Array& array, const std::string& name, int64_t num_classes,
                                    int64_t num_images) {
  if (num_classes == 0) {
    return at::zeros({num_images}, at::kLong);
  }
  const bool is_list = array.shape.size() == 1 || (array.shape.size() == 2 && array.shape[1] == 1);
  if (!is_list || !IsInteger(array.type)) {
    return DataError(name, absl::StrCat(ElementName(array.type), " of ", ShapeText(array.shape),
                                        "; labels are integers of (samples) or (samples, 1). An exported model takes "
                                        "numbers by the head REGRESSION, and 0 or 1 for each class by MULTI_LABEL"));
  }
  at::Tensor labels = at::empty({array.shape[0]}, at::kLong);
  int64_t* out = labels.data_ptr<int64_t>();
  int64_t count = 0;
  int64_t wrong = -1;
  ForEachElement(array, [&](auto value) {
    const auto label = static_cast<int64_t>(value);
    wrong = wrong < 0 && (label < 0 || label >= num_classes) ? count : wrong;
    out[count++] = label;
  });
  if (wrong >= 0) {
    return DataError(name, absl::StrCat("label ", out[wrong], " of sample ", wrong, " is not 0 to ", num_classes - 1));
  }
  return labels;
}

// The extents of a sample that are not 1.
std::vector<int64_t> ExtentsOf(const std::vector<int64_t>& shape, size_t first) {
  std::vector<int64_t> extents;
  std::copy_if(shape.begin() + static_cast<int64_t>(std::min(first, shape.size())), shape.end(),
               std::back_inserter(extents), [](int64_t extent) { return extent != 1; });
  return extents;
}

std::string NameOf(Dataset::Targets::Kind kind) {
  switch (kind) {
    case Dataset::Targets::Kind::kNumbers:
      return "numbers";
    case Dataset::Targets::Kind::kDecisions:
      return "0 or 1";
    case Dataset::Targets::Kind::kIntegers:
      return "integers";
  }
  return "";
}

// What an element is taken for, and whether it may be it.
template <typename Value>
bool MayBe(Dataset::Targets::Kind kind, Value value) {
  return kind == Dataset::Targets::Kind::kDecisions ? value == 0 || value == 1
                                                    : std::isfinite(static_cast<float>(value));
}

// As `Number`s, from `out` on. The place of the first that `kind` refuses, or -1.
template <typename Number>
int64_t Convert(const Array& array, Dataset::Targets::Kind kind, Number* out) {
  int64_t count = 0;
  int64_t wrong = -1;
  ForEachElement(array, [&](auto value) {
    wrong = wrong < 0 && !MayBe(kind, value) ? count : wrong;
    out[count++] = static_cast<Number>(value);
  });
  return wrong;
}

// (N, ...), as the model has them.
absl::StatusOr<at::Tensor> TargetsOf(const Array& array, const std::string& name, const Dataset::Targets& targets) {
  const bool are_integers = targets.kind == Dataset::Targets::Kind::kIntegers;
  std::vector<int64_t> shape = {array.shape[0]};
  shape.insert(shape.end(), targets.shape.begin(), targets.shape.end());
  if (ExtentsOf(array.shape, 1) != ExtentsOf(targets.shape, 0) || (are_integers && !IsInteger(array.type))) {
    return DataError(
        name, absl::StrCat(ElementName(array.type), " of ", ShapeText(array.shape),
                           "; the model takes labels that are ", NameOf(targets.kind), " of ", ShapeText(shape)));
  }
  at::Tensor labels = at::empty(shape, are_integers ? at::kLong : at::kFloat);
  const int64_t wrong = are_integers ? Convert(array, targets.kind, labels.data_ptr<int64_t>())
                                     : Convert(array, targets.kind, labels.data_ptr<float>());
  if (wrong < 0) {
    return labels;
  }
  const float label = labels.data_ptr<float>()[wrong];  // integers are never wrong
  const int64_t sample = wrong / (labels.numel() / labels.size(0));
  return DataError(
      name, absl::StrCat("sample ", sample, " has a label that is ", label,
                         targets.kind == Dataset::Targets::Kind::kDecisions ? "; it must be 0 or 1" : " in float32"));
}

// One number for all channels of `images`, one for each, or none.
absl::Status CheckPerChannel(const std::vector<double>& numbers, const at::Tensor& images, const std::string& name,
                             const char* what) {
  const size_t channels = images.dim() == 4 ? images.size(1) : 1;
  return numbers.size() <= 1 || numbers.size() == channels
             ? absl::OkStatus()
             : DataError(name,
                         absl::StrCat(numbers.size(), " numbers of ", what, " for images of ", channels, " channels"));
}

}  // namespace

absl::StatusOr<Dataset> Dataset::FromArrays(Arrays source) {
  const std::vector<int64_t>& shape = source.images.shape;
  if (shape.size() < 2 || shape.size() > 4 || source.images.bytes.empty()) {
    return DataError(source.images_name,
                     absl::StrCat(ElementName(source.images.type), " of ", ShapeText(shape),
                                  "; images are of 2 dimensions (samples, features), 3 (samples, height, width) or 4, ",
                                  "none of them 0"));
  }
  if (ReadsLabels(source) && (source.labels.shape.empty() || source.labels.shape[0] != shape[0])) {
    return DataError(source.labels_name, absl::StrCat("labels of ", ShapeText(source.labels.shape), " for images of ",
                                                      ShapeText(shape), " in ", source.images_name));
  }
  if (const int64_t num_bytes = SampleBytes(source); num_bytes > kMaxDatasetBytes) {
    return DataError(source.images_name, absl::StrCat("its samples take ", num_bytes, " bytes in memory; at most ",
                                                      kMaxDatasetBytes, "; limit says how many are used"));
  }
  AMPD_ASSIGN_OR_RETURN(at::Tensor labels,
                        source.targets.has_value()
                            ? TargetsOf(source.labels, source.labels_name, *source.targets)
                            : LabelsOf(source.labels, source.labels_name, source.num_classes, shape[0]));
  at::Tensor images = ImagesOf(source.images, source.channels_last);
  AMPD_RETURN_IF_ERROR(CheckFinite(images, source.images_name));
  AMPD_RETURN_IF_ERROR(CheckPerChannel(source.normalization.mean, images, source.images_name, "mean"));
  AMPD_RETURN_IF_ERROR(CheckPerChannel(source.normalization.deviation, images, source.images_name, "std"));
  return Dataset(std::move(images), std::move(labels), source.normalization);
}

absl::StatusOr<Dataset> Dataset::ReadCifar(const Cifar& source) {
  const int64_t num_classes = source.num_classes > 0 ? source.num_classes : std::numeric_limits<int64_t>::max();
  AMPD_ASSIGN_OR_RETURN(CifarImages images, data::ReadCifar(source.files, source.kind, source.limit, num_classes));
  const auto count = static_cast<int64_t>(images.labels.size());
  Arrays arrays{
      .images = {ElementType::kUint8, {count, kCifarChannels, kCifarSize, kCifarSize}, std::move(images.pixels)},
      .labels = {ElementType::kUint8, {count}, std::move(images.labels)},
      .images_name = source.files.empty() ? "CIFAR" : source.files.front().name,
      .normalization = source.normalization,
      .num_classes = source.num_classes};
  arrays.labels_name = arrays.images_name;
  return FromArrays(std::move(arrays));
}

absl::StatusOr<Dataset> Dataset::ReadNumpy(const Numpy& source) {
  Arrays arrays{.channels_last = source.channels_last,
                .normalization = source.normalization,
                .num_classes = source.num_classes,
                .targets = source.targets};
  if (source.archive.has_value()) {
    AMPD_ASSIGN_OR_RETURN(const NpzFile archive, NpzFile::Open(*source.archive));
    AMPD_ASSIGN_OR_RETURN(arrays.images, archive.Read(source.images_array, source.limit));
    if (ReadsLabels(arrays)) {
      AMPD_ASSIGN_OR_RETURN(arrays.labels, archive.Read(source.labels_array, source.limit));
    }
    arrays.images_name = absl::StrCat(source.archive->name, ": array \"", source.images_array, "\"");
    arrays.labels_name = absl::StrCat(source.archive->name, ": array \"", source.labels_array, "\"");
  } else {
    AMPD_ASSIGN_OR_RETURN(arrays.images, ReadNpy(source.images, source.limit));
    if (ReadsLabels(arrays)) {
      AMPD_ASSIGN_OR_RETURN(arrays.labels, ReadNpy(source.labels, source.limit));
    }
    arrays.images_name = source.images.name;
    arrays.labels_name = source.labels.name;
  }
  return FromArrays(std::move(arrays));
}

absl::StatusOr<Dataset> Dataset::ReadSafetensors(const Tensors& source) {
  AMPD_ASSIGN_OR_RETURN(const TensorArrays file, TensorArrays::Open(source.file));
  Arrays arrays{.images_name = absl::StrCat(source.file.name, ": tensor \"", source.images, "\""),
                .labels_name = absl::StrCat(source.file.name, ": tensor \"", source.labels, "\""),
                .channels_last = source.channels_last,
                .normalization = source.normalization,
                .num_classes = source.num_classes,
                .targets = source.targets};
  AMPD_ASSIGN_OR_RETURN(arrays.images, file.Read(source.images, source.limit));
  if (ReadsLabels(arrays)) {
    AMPD_ASSIGN_OR_RETURN(arrays.labels, file.Read(source.labels, source.limit));
  }
  return FromArrays(std::move(arrays));
}

}  // namespace ampd::data
