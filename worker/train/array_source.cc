#include "worker/train/array_source.h"

#include <utility>

#include "base/status_macros.h"

namespace ampd::train {
namespace {

// Of a CifarSource, NpzSource or SafetensorsSource.
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

absl::StatusOr<data::Dataset> OpenNpz(const v1::NpzSource& source, const std::string& field, const Labels& labels,
                                      Locator locate) {
  data::Dataset::Numpy numpy{.images_array = source.images(),
                             .labels_array = source.labels(),
                             .channels_last = source.channels_last(),
                             .normalization = NormalizationOf(source),
                             .limit = source.limit(),
                             .num_classes = labels.num_classes,
                             .targets = labels.targets};
  if (!source.file().empty()) {
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
                                          const Labels& labels, Locator locate) {
  AMPD_ASSIGN_OR_RETURN(data::DataFile file, locate(field + ".file", source.file()));
  return data::Dataset::ReadSafetensors({.file = std::move(file),
                                         .images = source.images(),
                                         .labels = source.labels(),
                                         .channels_last = source.channels_last(),
                                         .normalization = NormalizationOf(source),
                                         .limit = source.limit(),
                                         .num_classes = labels.num_classes,
                                         .targets = labels.targets});
}

}  // namespace

bool IsArraySource(const v1::DataSource& source) {
  return source.has_cifar() || source.has_npz() || source.has_safetensors();
}

absl::StatusOr<data::Dataset> OpenArraySource(const v1::DataSource& source, const std::string& field,
                                              const Labels& labels, Locator locate) {
  if (source.has_cifar()) {
    return OpenCifar(source.cifar(), field + ".cifar", labels.num_classes, locate);
  }
  return source.has_npz() ? OpenNpz(source.npz(), field + ".npz", labels, locate)
                          : OpenTensors(source.safetensors(), field + ".safetensors", labels, locate);
}

}  // namespace ampd::train
