#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

// The interface that the readers of all formats share: a sequence of bytes, from a file or an archive.
namespace ampd::data {

// A function that reads up to `size` bytes into `out` and returns how many it read; fewer than `size` only at the end
// of the content.
using ByteSource = absl::FunctionRef<absl::StatusOr<size_t>(uint8_t* out, size_t size)>;

// The maximum number of bytes of samples that a dataset holds in memory.
inline constexpr int64_t kMaxDatasetBytes = int64_t{4} << 30;

// Reads exactly `size` bytes. `name` is the file's name in error messages. Allocates memory only for bytes that the
// source really has, so a damaged `size` can't exhaust the memory.
absl::StatusOr<std::vector<uint8_t>> ReadExactly(ByteSource source, const std::string& name, int64_t size);

// Returns DATA_ERROR if the source has bytes left.
absl::Status ExpectEnd(ByteSource source, const std::string& name);

}  // namespace ampd::data
