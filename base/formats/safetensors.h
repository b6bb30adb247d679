#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// A file of tensors, in the format of Hugging Face's safetensors:
//
//   file   := length header data
//   length := u64, little-endian: bytes of the header
//   header := JSON object: name -> {"dtype": D, "shape": [n...], "data_offsets": [begin, end]}, padded with spaces;
//             "__metadata__" -> object of strings
//   data   := the tensors, little-endian, row-major, one after another
//
// This code is stricter than the format: sizes are bounded, text is strict UTF-8, every key is known and occurs once,
// the list of dtypes is closed, and the data is contiguous from 0 to the end of the file without gap, overlap or
// trailing bytes.
namespace ampd {

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // Offset in the data.
  uint64_t end = 0;

  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // Ordered by `begin`.
  std::map<std::string, std::string> metadata;
  uint64_t data_begin = 0;  // Offset in the file; the tensors' offsets count from here.
};

struct SafetensorsFile {
  SafetensorsHeader header;
  std::string_view data;  // Points into the parsed bytes.
};

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 1 << 20;
inline constexpr size_t kMaxSafetensorsTensors = 100'000;
inline constexpr size_t kMaxSafetensorsRank = 8;
inline constexpr size_t kMaxSafetensorsNameBytes = 256;

// The number of bytes of one element of this dtype; 0 if the dtype is unknown.
uint64_t SafetensorsDtypeBytes(std::string_view dtype);

// Parses a whole file. Returns DATA_LOSS if the file breaks one of the rules at the top of this header; the message
// names the fault.
absl::StatusOr<SafetensorsFile> ParseSafetensors(std::string_view bytes);

// Parses only the header of a file of `file_bytes`, for files that are not read into memory. `prefix` is the beginning
// of the file: the whole file, or at least 8 + kMaxSafetensorsHeaderBytes bytes. Checks the tensors' offsets by the
// rules of ParseSafetensors.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view prefix, uint64_t file_bytes);

// Encodes the length and the header of a file. The tensors' bytes must follow in the order of `header.tensors`; the
// offsets in `header` are ignored and computed from that order. Returns INVALID_ARGUMENT if ParseSafetensors would
// refuse the header.
absl::StatusOr<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& header);

}  // namespace ampd
