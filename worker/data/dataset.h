#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "worker/data/array.h"
#include "worker/data/cifar.h"
#include "worker/data/data_file.h"

namespace ampd::data {

// Samples in memory on the CPU. N samples of D elements each, B in a batch. Thread-compatible; reading is thread-safe.
class Dataset {
 public:
  struct Idx {
    DataFile images;
    DataFile labels;
    double mean = 0;
    double deviation = 1;
    int64_t limit = 0;  // 0: all
    int64_t num_classes = 0;
  };
  // Pixels are mapped to (value - mean) / deviation: one number for all channels or one for each; none: 0 and 1.
  struct Normalization {
    std::vector<double> mean;
    std::vector<double> deviation;
  };
  struct Cifar {
    std::vector<DataFile> files;
    CifarLabels kind = CifarLabels::kTen;
    Normalization normalization;  // of pixels mapped to [0, 1]
    int64_t limit = 0;
    int64_t num_classes = 0;
  };
  // Arrays as they were read. Images are (N, D), (N, H, W) or (N, C, H, W), or (N, H, W, C) where the channels are
  // last; uint8 is mapped to [0, 1], every other type is taken as float. Labels are (N) or (N, 1), integers.
  struct Arrays {
    Array images;
    Array labels;
    std::string images_name;  // what messages call them
    std::string labels_name;
    bool channels_last = false;
    Normalization normalization;
    int64_t num_classes = 0;
  };
  struct Numpy {
    std::optional<DataFile> archive;  // an .npz file with both arrays; unset: two .npy files
    std::string images_array;         // in the archive
    std::string labels_array;
    DataFile images;  // without an archive
    DataFile labels;
    bool channels_last = false;
    Normalization normalization;
    int64_t limit = 0;
    int64_t num_classes = 0;
  };
  // Class prototypes with standard normal elements plus normal noise. The prototypes depend on the seed alone; training
  // and evaluation data of one seed differ in their noise.
  struct Synthetic {
    std::vector<int64_t> shape;  // of one sample
    int64_t num_classes = 0;
    int64_t num_samples = 0;
    uint64_t seed = 0;
    double noise = 1;
    bool evaluation = false;
  };

  struct Samples {
    at::Tensor images;  // (B, ...) float
    at::Tensor labels;  // (B) int64
  };

  // Errors have the reason DATA_ERROR.
  static absl::StatusOr<Dataset> ReadIdx(const Idx& source);
  static absl::StatusOr<Dataset> ReadCifar(const Cifar& source);
  static absl::StatusOr<Dataset> ReadNumpy(const Numpy& source);
  static absl::StatusOr<Dataset> FromArrays(Arrays source);
  static absl::StatusOr<Dataset> MakeSynthetic(const Synthetic& source);

  int64_t size() const { return labels_.size(0); }
  int64_t sample_elements() const { return images_.numel() / size(); }

  // The samples at `indices`, normalised. REQUIRES: each is in [0, size).
  Samples Get(const std::vector<int64_t>& indices) const;

 private:
  Dataset(at::Tensor images, at::Tensor labels, at::Tensor mean, at::Tensor deviation)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        mean_(std::move(mean)),
        deviation_(std::move(deviation)) {}

  at::Tensor images_;     // (N, ...) uint8 or float
  at::Tensor labels_;     // (N) int64
  at::Tensor mean_;       // float, broadcast over a sample; undefined: 0
  at::Tensor deviation_;  // likewise; undefined: 1
};

}  // namespace ampd::data
