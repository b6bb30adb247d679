#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/formats/safetensors.h"
#include "worker/executor/executor.h"

namespace ampd::train {

// Presents tensors as the parts of a safetensors file. Contiguous tensors are not copied. Thread-compatible.
class TensorFile {
 public:
  // INVALID_ARGUMENT for a tensor with a dtype or name that the format does not support.
  static absl::StatusOr<TensorFile> Of(const executor::TensorMap& tensors);

  // The parts are valid as long as this object.
  std::vector<std::string_view> parts() const;

 private:
  std::string header_;
  std::vector<at::Tensor> tensors_;
};

// Copies the tensor of one entry out of a parsed file. DATA_LOSS for a boolean that is neither 0 nor 1.
absl::StatusOr<at::Tensor> ReadTensor(const SafetensorsFile& file, const TensorEntry& entry);

// Copies all tensors out of a safetensors file. DATA_LOSS in the cases in which ParseSafetensors or ReadTensor returns
// it.
absl::StatusOr<executor::TensorMap> ReadTensors(std::string_view bytes);

}  // namespace ampd::train
