#include "worker/data/dataset.h"

#include <algorithm>
#include <cstring>

#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/data_file.h"
#include "data/idx.h"
#include "worker/data/philox.h"

namespace ampd::data {
namespace {

constexpr int64_t kMaxSyntheticElements = int64_t{1} << 30;

// Numbers of the random streams that are drawn from a seed.
constexpr uint64_t kPrototypes = 0;
constexpr uint64_t kTrainingNoise = 1;
constexpr uint64_t kEvaluationNoise = 2;

absl::StatusOr<int64_t> Elements(const Dataset::Synthetic& source) {
  int64_t elements = 1;
  for (const int64_t dim : source.shape) {
    if (dim < 1 || __builtin_mul_overflow(elements, dim, &elements)) {
      return DataError("synthetic", absl::StrCat("a sample can't have a dimension of ", dim));
    }
  }
  int64_t all = 0;
  if (source.num_classes < 1 || source.num_samples < 1 ||
      __builtin_mul_overflow(elements, std::max(source.num_samples, source.num_classes), &all) ||
      all > kMaxSyntheticElements) {
    return DataError("synthetic", absl::StrCat(source.num_samples, " samples of ", elements, " elements in ",
                                               source.num_classes, " classes; at most ", kMaxSyntheticElements,
                                               " elements and at least one class and sample"));
  }
  return elements;
}

}  // namespace

absl::StatusOr<Dataset> Dataset::ReadIdx(const Idx& source) {
  AMPD_ASSIGN_OR_RETURN(const IdxImages images, ReadIdxImages(source.images, source.limit));
  std::vector<uint8_t> labels(static_cast<size_t>(images.count));
  if (source.num_classes > 0) {
    AMPD_ASSIGN_OR_RETURN(labels, ReadIdxLabels(source.labels, source.limit, source.num_classes));
  }
  if (static_cast<int64_t>(labels.size()) != images.count) {
    return DataError(source.labels.name,
                     absl::StrCat(labels.size(), " labels for ", images.count, " images in ", source.images.name));
  }
  at::Tensor pixels = at::empty({images.count, 1, images.rows, images.columns}, at::kByte);
  std::memcpy(pixels.data_ptr<uint8_t>(), images.pixels.data(), images.pixels.size());
  at::Tensor classes = at::empty({images.count}, at::kLong);
  std::copy(labels.begin(), labels.end(), classes.data_ptr<int64_t>());
  Dataset data(std::move(pixels), std::move(classes), {.mean = {source.mean}, .deviation = {source.deviation}});
  AMPD_RETURN_IF_ERROR(data.CheckMapping(source.images.name));
  return data;
}

absl::StatusOr<Dataset> Dataset::MakeSynthetic(const Synthetic& source) {
  AMPD_ASSIGN_OR_RETURN(const int64_t elements, Elements(source));
  std::vector<float> prototypes(static_cast<size_t>(source.num_classes * elements));
  for (size_t i = 0; i < prototypes.size(); ++i) {
    prototypes[i] = PhiloxNormal(source.seed, kPrototypes, i);
  }
  std::vector<int64_t> shape = {source.num_samples};
  shape.insert(shape.end(), source.shape.begin(), source.shape.end());
  at::Tensor images = at::empty(shape, at::kFloat);
  at::Tensor labels = at::empty({source.num_samples}, at::kLong);
  const uint64_t stream = source.evaluation ? kEvaluationNoise : kTrainingNoise;
  const auto noise = static_cast<float>(source.noise);
  float* out = images.data_ptr<float>();
  for (int64_t i = 0; i < source.num_samples; ++i) {
    const int64_t label = i % source.num_classes;
    labels.data_ptr<int64_t>()[i] = label;
    for (int64_t k = 0; k < elements; ++k) {
      const int64_t at = i * elements + k;
      out[at] = prototypes[static_cast<size_t>(label * elements + k)] + noise * PhiloxNormal(source.seed, stream, at);
    }
  }
  return Dataset(std::move(images), std::move(labels), Normalization());
}

std::vector<int64_t> Dataset::image_shape() const {
  return images_.defined() && images_.dim() == 4 ? images_.sizes().slice(1).vec() : std::vector<int64_t>();
}

std::vector<std::string_view> Dataset::input_names() const {
  if (padded_.has_value()) {
    return {"input_ids", "attention_mask", "token_type_ids"};
  }
  if (is_text()) {
    return {"input_ids"};
  }
  std::vector<std::string_view> names;
  if (images_.defined()) {
    names.emplace_back("images");
  }
  for (const auto& [name, unused] : fields_) {
    names.emplace_back(name);
  }
  return names;
}

int64_t Dataset::size() const {
  if (padded_.has_value()) {
    return static_cast<int64_t>(padded_->texts.labels.size());
  }
  return is_text() ? windows_->count : labels_.size(0);
}

int64_t Dataset::sample_elements() const {
  if (padded_.has_value()) {
    return padded_->length;
  }
  if (is_text()) {
    return windows_->length;
  }
  return (images_.defined() ? images_ : fields_.front().second).numel() / size();
}

}  // namespace ampd::data
