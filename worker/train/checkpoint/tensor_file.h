#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/formats/safetensors.h"
#include "worker/executor/executor.h"

namespace ampd::train {

// The bytes of a safetensors file that contains the given tensors, in pieces. Contiguous tensors are not copied.
// Thread-compatible.
class TensorFile {
 public:
  // Makes the file for these tensors. INVALID_ARGUMENT for a tensor with a dtype or name that the format does not
  // support.
  static absl::StatusOr<TensorFile> Of(const executor::TensorMap& tensors);

  // The file's bytes, in pieces to be written in order. The pieces are valid as long as this object lives.
  std::vector<std::string_view> parts() const;

 private:
  std::string header_;
  std::vector<at::Tensor> tensors_;
};

// Copies the tensor of one entry out of a parsed file. DATA_LOSS for a boolean that is neither 0 nor 1.
absl::StatusOr<at::Tensor> ReadTensor(const SafetensorsFile& file, const TensorEntry& entry);

// Copies all tensors out of the bytes of a safetensors file. Returns the errors of ParseSafetensors and ReadTensor.
absl::StatusOr<executor::TensorMap> ReadTensors(std::string_view bytes);

}  // namespace ampd::train
