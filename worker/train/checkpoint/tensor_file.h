#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/formats/safetensors.h"
#include "worker/executor/executor.h"

namespace ampd::train {

// Tensors as the parts of a safetensors file, without copying those that are contiguous. Thread-compatible.
class TensorFile {
 public:
  // INVALID_ARGUMENT for a tensor whose dtype or name the format does not have.
  static absl::StatusOr<TensorFile> Of(const executor::TensorMap& tensors);

  // Valid as long as this object.
  std::vector<std::string_view> parts() const;

 private:
  std::string header_;
  std::vector<at::Tensor> tensors_;
};

// The tensor of an entry of a parsed file, as a copy. DATA_LOSS for a boolean that is neither 0 nor 1.
absl::StatusOr<at::Tensor> ReadTensor(const SafetensorsFile& file, const TensorEntry& entry);

// The tensors of a safetensors file, as copies. DATA_LOSS as ParseSafetensors and ReadTensor.
absl::StatusOr<executor::TensorMap> ReadTensors(std::string_view bytes);

}  // namespace ampd::train
