#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "data/array.h"
#include "data/byte_source.h"
#include "data/data_file.h"

// NumPy's format of one array, versions 1.0, 2.0 and 3.0:
//
//   file   := 0x93 "NUMPY" major minor length header element*
//   length := u16 (1.0) or u32 (2.0, 3.0), little-endian: bytes of the header, at most 10,000, NumPy's own limit
//   header := a Python dict with the keys 'descr', 'fortran_order' and 'shape', each once, then spaces and a newline
//
// Taken are row-major arrays of uint8, int8, int16, int32, int64, float16, float32 and float64, little-endian, of at
// most 8 dimensions; others are refused by name. Read strictly: the content holds as many elements as the shape says,
// no fewer and no more. Memory grows with what the content holds. Errors name the file and the value; reasons as in
// data_file.h.
namespace ampd::data {

inline constexpr size_t kMaxArrayRank = 8;
inline constexpr size_t kMaxNpyHeaderBytes = 10'000;

// `limit`: only so many of the first dimension, and what follows is not looked at; 0: all.
absl::StatusOr<Array> ReadNpy(ByteSource source, const std::string& name, int64_t limit);

// The same of a file, plain or gzip.
absl::StatusOr<Array> ReadNpy(const DataFile& file, int64_t limit);

}  // namespace ampd::data
