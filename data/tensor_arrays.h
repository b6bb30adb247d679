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

// The tensors of a safetensors file (base/formats/safetensors.h has its grammar and its rules), one read at a time: its
// header is checked against the file's size before anything else is read. Taken are BOOL, U8, I8, I16, I32, I64, F16,
// F32 and F64 of at most kMaxDatasetBytes; others are refused by name. Reasons of errors as in data_file.h.
// Thread-compatible.
class TensorArrays {
 public:
  static absl::StatusOr<TensorArrays> Open(const DataFile& file);

  // In the order of their places in the file.
  std::vector<std::string> names() const;

  // What the file says of itself: texts by their names.
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // The tensor of that name. `limit`: only so many of its first dimension; 0: all.
  absl::StatusOr<Array> Read(const std::string& name, int64_t limit) const;

 private:
  TensorArrays(std::string name, UniqueFd file, SafetensorsHeader header)
      : name_(std::move(name)), file_(std::move(file)), header_(std::move(header)) {}

  std::string name_;  // what messages call the file
  UniqueFd file_;
  SafetensorsHeader header_;
};

}  // namespace ampd::data
