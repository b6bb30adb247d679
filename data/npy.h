#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/array.h"
#include "data/byte_source.h"
#include "data/data_file.h"

// NumPy's format for one array, versions 1.0, 2.0 and 3.0:
//
//   file   := 0x93 "NUMPY" major minor length header element*
//   length := u16 (1.0) or u32 (2.0, 3.0), little-endian: bytes of the header, at most 10,000, NumPy's own limit
//   header := a Python dict with the keys 'descr', 'fortran_order' and 'shape', each once, then spaces and a newline
//
// The readers accept row-major, little-endian arrays of bool, uint8, int8, int16, int32, int64, float16, float32 and
// float64 with at most 8 dimensions; the error for any other array names the reason. The content is read strictly: it
// must hold exactly as many elements as the shape says. Memory grows with what the content holds. Error messages name
// the file and the value; the errors have the reasons that data_file.h describes.
namespace ampd::data {

inline constexpr size_t kMaxArrayRank = 8;
inline constexpr size_t kMaxNpyHeaderBytes = 10'000;

// Reads an array. If `limit` is above 0, reads at most so many elements of its first dimension, and does not check the
// rest. `name` is the array's name in error messages.
absl::StatusOr<Array> ReadNpy(ByteSource source, const std::string& name, int64_t limit);

// Returns the content of an .npy file, in version 1.0, as numpy.save writes it. REQUIRES: `type` is kBool, kInt64 or
// kFloat32; `content` has as many bytes as the shape requires.
std::string WriteNpy(ElementType type, const std::vector<int64_t>& shape, const std::string& content);

// Reads an .npy file, plain or gzip, in the same way as the ReadNpy above.
absl::StatusOr<Array> ReadNpy(const DataFile& file, int64_t limit);

}  // namespace ampd::data
