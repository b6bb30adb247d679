// Datasets made from arrays: CIFAR images, NumPy arrays, tensors of a safetensors file.
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/array.h"
#include "data/cifar.h"
#include "data/npy.h"
#include "data/npz.h"
#include "data/tensor_arrays.h"
#include "worker/data/dataset.h"
#include "worker/data/field.h"

namespace ampd::data {
namespace {

// The images as (N, D), (N, 1, H, W) or (N, C, H, W), uint8 or float, with their own memory.
at::Tensor ImagesOf(Array& array, bool channels_last) {
  at::Tensor images = at::from_blob(array.bytes.data(), array.shape, ToScalarType(array.type));
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

// The array that determines the number of samples.
struct Leading {
  std::string what;
  const std::vector<int64_t>& shape;
  const std::string& name;
};

Leading LeadingOf(const Dataset::Arrays& source) {
  if (source.takes_images) {
    return {"images", source.images.shape, source.images_name};
  }
  const FieldArray& first = source.fields.front();
  return {first.field.name, first.array.shape, first.name};
}

// The size of the samples in memory, in bytes. It may be many times the size of a compressed file.
int64_t SampleBytes(const Dataset::Arrays& source, int64_t num_samples) {
  const int64_t of_image = source.images.type == ElementType::kUint8 ? 1 : sizeof(float);
  const int64_t num_labels = ReadsLabels(source) ? ElementsOf(source.labels.shape) : num_samples;
  int64_t bytes = num_labels * static_cast<int64_t>(sizeof(int64_t));
  if (source.takes_images) {
    bytes += ElementsOf(source.images.shape) * of_image;
  }
  for (const FieldArray& given : source.fields) {
    bytes += ElementsOf(given.array.shape) * ElementBytes(given.field.type);
  }
  return bytes;
}

// Checks that the array has as many samples as the leading array.
absl::Status CheckCount(const std::string& what, const std::vector<int64_t>& shape, const std::string& name,
                        const Leading& leading) {
  return !shape.empty() && shape[0] == leading.shape[0]
             ? absl::OkStatus()
             : DataError(name, absl::StrCat(what, " of ", ShapeText(shape), " for ", leading.what, " of ",
                                            ShapeText(leading.shape), " in ", leading.name));
}

// Checks that the arrays have valid shapes and the same number of samples, and that the samples fit into
// kMaxDatasetBytes.
absl::Status CheckShapes(const Dataset::Arrays& source) {
  const std::vector<int64_t>& shape = source.images.shape;
  if (source.takes_images && (shape.size() < 2 || shape.size() > 4 || source.images.bytes.empty())) {
    return DataError(source.images_name,
                     absl::StrCat(ElementName(source.images.type), " of ", ShapeText(shape),
                                  "; images are of 2 dimensions (samples, features), 3 (samples, height, width) or 4, ",
                                  "none of them 0"));
  }
  for (const FieldArray& given : source.fields) {
    AMPD_RETURN_IF_ERROR(CheckField(given));
  }
  const Leading leading = LeadingOf(source);
  if (ReadsLabels(source)) {
    AMPD_RETURN_IF_ERROR(CheckCount("labels", source.labels.shape, source.labels_name, leading));
  }
  for (const FieldArray& given : source.fields) {
    AMPD_RETURN_IF_ERROR(CheckCount(given.field.name, given.array.shape, given.name, leading));
  }
  const int64_t num_bytes = SampleBytes(source, leading.shape[0]);
  return num_bytes <= kMaxDatasetBytes
             ? absl::OkStatus()
             : DataError(leading.name, absl::StrCat("its samples take ", num_bytes, " bytes in memory; at most ",
                                                    kMaxDatasetBytes, "; limit says how many are used"));
}

// The labels as (N), for N samples.
absl::StatusOr<at::Tensor> LabelsOf(const Array& array, const std::string& name, int64_t num_classes,
                                    int64_t num_samples) {
  if (num_classes == 0) {
    return at::zeros({num_samples}, at::kLong);
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

// Checks that `numbers` has one number for all channels of `images`, or one number per channel, or is empty.
absl::Status CheckPerChannel(const std::vector<double>& numbers, const at::Tensor& images, const std::string& name,
                             const char* what) {
  const size_t channels = images.dim() == 4 ? images.size(1) : 1;
  return numbers.size() <= 1 || numbers.size() == channels
             ? absl::OkStatus()
             : DataError(name,
                         absl::StrCat(numbers.size(), " numbers of ", what, " for images of ", channels, " channels"));
}

// The names of the arrays that contain images and labels in a file.
struct Named {
  std::string file;  // Start of an array's name in messages: the file's name and a word such as "tensor".
  std::string images;
  std::string labels;

  std::string Name(const std::string& array) const { return absl::StrCat(file, " \"", absl::CEscape(array), "\""); }
};

// Reads the images, the labels and the fields that `arrays` needs from `archive`, an NpzFile or TensorArrays.
template <typename Archive>
absl::Status ReadNamed(const Archive& archive, const Named& named, const std::vector<Field>& fields, int64_t limit,
                       Dataset::Arrays* arrays) {
  arrays->images_name = named.Name(named.images);
  arrays->labels_name = named.Name(named.labels);
  if (arrays->takes_images) {
    AMPD_ASSIGN_OR_RETURN(arrays->images, archive.Read(named.images, limit));
  }
  if (ReadsLabels(*arrays)) {
    AMPD_ASSIGN_OR_RETURN(arrays->labels, archive.Read(named.labels, limit));
  }
  size_t num_bytes = arrays->images.bytes.size();
  for (const Field& field : fields) {
    AMPD_ASSIGN_OR_RETURN(Array array, archive.Read(field.name, limit));
    arrays->fields.push_back({field, std::move(array), named.Name(field.name)});
    num_bytes += arrays->fields.back().array.bytes.size();
    if (num_bytes > static_cast<size_t>(kMaxDatasetBytes)) {  // Checked here, before the next array takes memory.
      return DataError(arrays->fields.back().name,
                       absl::StrCat("with the arrays before it more than ", kMaxDatasetBytes,
                                    " bytes; limit says how many samples are used"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Dataset> Dataset::FromArrays(Arrays source) {
  AMPD_RETURN_IF_ERROR(CheckShapes(source));
  AMPD_ASSIGN_OR_RETURN(at::Tensor labels, source.targets.has_value()
                                               ? TakeTargets(source.labels, source.labels_name, *source.targets)
                                               : LabelsOf(source.labels, source.labels_name, source.num_classes,
                                                          LeadingOf(source).shape[0]));
  at::Tensor images;
  if (source.takes_images) {
    images = ImagesOf(source.images, source.channels_last);
    AMPD_RETURN_IF_ERROR(CheckFinite(images, source.images_name));
    AMPD_RETURN_IF_ERROR(CheckPerChannel(source.normalization.mean, images, source.images_name, "mean"));
    AMPD_RETURN_IF_ERROR(CheckPerChannel(source.normalization.deviation, images, source.images_name, "std"));
  }
  Dataset data(std::move(images), std::move(labels), source.normalization);
  AMPD_RETURN_IF_ERROR(data.CheckMapping(source.images_name));
  for (FieldArray& given : source.fields) {
    std::string name = given.field.name;
    AMPD_ASSIGN_OR_RETURN(at::Tensor samples, TakeField(std::move(given)));
    data.fields_.emplace_back(std::move(name), std::move(samples));
  }
  return data;
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
                .targets = source.targets,
                .takes_images = source.takes_images};
  if (source.archive.has_value()) {
    AMPD_ASSIGN_OR_RETURN(const NpzFile archive, NpzFile::Open(*source.archive));
    const Named named{source.archive->name + ": array", source.images_array, source.labels_array};
    AMPD_RETURN_IF_ERROR(ReadNamed(archive, named, source.fields, source.limit, &arrays));
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
  Arrays arrays{.channels_last = source.channels_last,
                .normalization = source.normalization,
                .num_classes = source.num_classes,
                .targets = source.targets,
                .takes_images = source.takes_images};
  const Named named{source.file.name + ": tensor", source.images, source.labels};
  AMPD_RETURN_IF_ERROR(ReadNamed(file, named, source.fields, source.limit, &arrays));
  return FromArrays(std::move(arrays));
}

}  // namespace ampd::data
