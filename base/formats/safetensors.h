#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// Tensors in a file, the format of Hugging Face's safetensors:
//
//   file   := length header data
//   length := u64, little-endian: bytes of the header
//   header := JSON object: name -> {"dtype": D, "shape": [n...], "data_offsets": [begin, end]}, padded with spaces;
//             "__metadata__" -> object of strings
//   data   := the tensors, little-endian, row-major, one behind the other
//
// Stricter than the format asks: bounded sizes, strict UTF-8, every key known and once, a closed list of dtypes, data
// contiguous from 0 to the end of the file without gap, overlap or trailing bytes.
namespace ampd {

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // in the data
  uint64_t end = 0;

  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // by `begin`
  std::map<std::string, std::string> metadata;
  uint64_t data_begin = 0;  // in the file; where tensors' offsets count from
};

struct SafetensorsFile {
  SafetensorsHeader header;
  std::string_view data;  // into the parsed bytes
};

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 1 << 20;
inline constexpr size_t kMaxSafetensorsTensors = 100'000;
inline constexpr size_t kMaxSafetensorsRank = 8;
inline constexpr size_t kMaxSafetensorsNameBytes = 256;

// Bytes of one element; 0 for a dtype that is not known.
uint64_t SafetensorsDtypeBytes(std::string_view dtype);

// Takes a whole file apart. DATA_LOSS saying what is wrong with it.
absl::StatusOr<SafetensorsFile> ParseSafetensors(std::string_view bytes);

// The header alone of a file of `file_bytes` that begins with `prefix`, for files that are not read into memory. All of
// the file or 8 + kMaxSafetensorsHeaderBytes bytes of it suffice. Checks the tensors' places like ParseSafetensors.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view prefix, uint64_t file_bytes);

// Length and header of a file; the tensors' bytes follow in the order of `header.tensors`, whose offsets are ignored
// and given anew. INVALID_ARGUMENT for what ParseSafetensors would refuse.
absl::StatusOr<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace ampd
