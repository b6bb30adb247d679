#include "worker/train/plan/array_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "worker/train/plan/fields.h"

namespace ampd::train {
namespace {

// Reads the normalization of a CifarSource, NpzSource or SafetensorsSource.
template <typename Source>
data::Dataset::Normalization NormalizationOf(const Source& source) {
  return {.mean = {source.mean().begin(), source.mean().end()},
          .deviation = {source.std().begin(), source.std().end()}};
}

data::CifarLabels LabelsOf(v1::CifarSource::Variant variant) {
  switch (variant) {
    case v1::CifarSource::CIFAR100_FINE:
      return data::CifarLabels::kHundredFine;
    case v1::CifarSource::CIFAR100_COARSE:
      return data::CifarLabels::kHundredCoarse;
    default:
      return data::CifarLabels::kTen;
  }
}

absl::StatusOr<data::Dataset> OpenCifar(const v1::CifarSource& source, const std::string& field, int64_t num_classes,
                                        Locator locate) {
  data::Dataset::Cifar cifar{.kind = LabelsOf(source.variant()),
                             .normalization = NormalizationOf(source),
                             .limit = source.limit(),
                             .num_classes = num_classes};
  for (const std::string& path : source.files()) {
    AMPD_ASSIGN_OR_RETURN(data::DataFile file, locate(field + ".files", path));
    cifar.files.push_back(std::move(file));
  }
  return data::Dataset::ReadCifar(cifar);
}

// The named arrays that a model takes from a file. SPEC_ERROR if the source has image options (mean, std,
// channels_last), but the model takes no images.
template <typename Source>
absl::StatusOr<TakenArrays> ArraysOf(const Source& source, const std::string& field, const graph::Graph& model) {
  AMPD_ASSIGN_OR_RETURN(TakenArrays taken, ArraysTakenBy(model));
  const auto maps = [](const auto& numbers, double nothing) {
    return std::any_of(numbers.begin(), numbers.end(), [=](double number) { return number != nothing; });
  };
  if (!taken.images && (source.channels_last() || maps(source.mean(), 0) || maps(source.std(), 1))) {
    return Error(absl::StatusCode::kInvalidArgument, "SPEC_ERROR",
                 field + " has mean, std or channels_last, which are of images, and the model takes no images");
  }
  return taken;
}

absl::StatusOr<data::Dataset> OpenNpz(const v1::NpzSource& source, const std::string& field, const graph::Graph& model,
                                      const Labels& labels, Locator locate) {
  data::Dataset::Numpy numpy{.images_array = source.images(),
                             .labels_array = source.labels(),
                             .channels_last = source.channels_last(),
                             .normalization = NormalizationOf(source),
                             .limit = source.limit(),
                             .num_classes = labels.num_classes,
                             .targets = labels.targets};
  if (!source.file().empty()) {
    AMPD_ASSIGN_OR_RETURN(TakenArrays taken, ArraysOf(source, field, model));
    numpy.takes_images = taken.images;
    numpy.fields = std::move(taken.fields);
    AMPD_ASSIGN_OR_RETURN(numpy.archive, locate(field + ".file", source.file()));
  } else {
    AMPD_ASSIGN_OR_RETURN(numpy.images, locate(field + ".images", source.images()));
    if (labels.num_classes > 0 || labels.targets.has_value()) {
      AMPD_ASSIGN_OR_RETURN(numpy.labels, locate(field + ".labels", source.labels()));
    }
  }
  return data::Dataset::ReadNumpy(numpy);
}

absl::StatusOr<data::Dataset> OpenTensors(const v1::SafetensorsSource& source, const std::string& field,
                                          const graph::Graph& model, const Labels& labels, Locator locate) {
  AMPD_ASSIGN_OR_RETURN(TakenArrays taken, ArraysOf(source, field, model));
  AMPD_ASSIGN_OR_RETURN(data::DataFile file, locate(field + ".file", source.file()));
  return data::Dataset::ReadSafetensors({.file = std::move(file),
                                         .images = source.images(),
                                         .labels = source.labels(),
                                         .channels_last = source.channels_last(),
                                         .normalization = NormalizationOf(source),
                                         .limit = source.limit(),
                                         .num_classes = labels.num_classes,
                                         .targets = labels.targets,
                                         .takes_images = taken.images,
                                         .fields = std::move(taken.fields)});
}

}  // namespace

bool IsArraySource(const v1::DataSource& source) {
  return source.has_cifar() || source.has_npz() || source.has_safetensors();
}

absl::StatusOr<data::Dataset> OpenArraySource(const v1::DataSource& source, const std::string& field,
                                              const graph::Graph& model, const Labels& labels, Locator locate) {
  if (source.has_cifar()) {
    return OpenCifar(source.cifar(), field + ".cifar", labels.num_classes, locate);
  }
  return source.has_npz() ? OpenNpz(source.npz(), field + ".npz", model, labels, locate)
                          : OpenTensors(source.safetensors(), field + ".safetensors", model, labels, locate);
}

}  // namespace ampd::train
