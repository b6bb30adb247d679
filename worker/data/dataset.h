#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
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
  static absl::StatusOr<Dataset> MakeSynthetic(const Synthetic& source);

  int64_t size() const { return labels_.size(0); }
  int64_t sample_elements() const { return images_.numel() / size(); }

  // The samples at `indices`, normalised. REQUIRES: each is in [0, size).
  Samples Get(const std::vector<int64_t>& indices) const;

 private:
  Dataset(at::Tensor images, at::Tensor labels, float mean, float deviation)
      : images_(std::move(images)), labels_(std::move(labels)), mean_(mean), deviation_(deviation) {}

  at::Tensor images_;  // (N, ...) uint8 or float
  at::Tensor labels_;  // (N) int64
  float mean_;         // of uint8 pixels mapped to [0, 1]
  float deviation_;
};

}  // namespace ampd::data
