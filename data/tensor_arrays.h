#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/formats/safetensors.h"
#include "base/io/file.h"
#include "data/array.h"
#include "data/data_file.h"

namespace ampd::data {

// The tensors of a safetensors file (base/formats/safetensors.h has its grammar and its rules), read one at a time. The
// header is checked against the file's size before anything else is read. Tensors of the dtypes BOOL, U8, I8, I16, I32,
// I64, F16, F32 and F64 with at most kMaxDatasetBytes are accepted; the error for any other tensor names the tensor and
// the reason. The errors have the reasons that data_file.h describes. Thread-compatible.
class TensorArrays {
 public:
  static absl::StatusOr<TensorArrays> Open(const DataFile& file);

  // The tensors' names, in the order of their positions in the file.
  std::vector<std::string> names() const;

  // The file's metadata: texts by name.
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Reads the named tensor. If `limit` is above 0, reads at most so many elements of its first dimension.
  absl::StatusOr<Array> Read(const std::string& name, int64_t limit) const;

 private:
  TensorArrays(std::string name, UniqueFd file, SafetensorsHeader header)
      : name_(std::move(name)), file_(std::move(file)), header_(std::move(header)) {}

  std::string name_;  // Name of the file in messages.
  UniqueFd file_;
  SafetensorsHeader header_;
};

}  // namespace ampd::data
