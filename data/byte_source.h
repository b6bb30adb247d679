#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

// The interface that the readers of all formats share: a sequence of bytes, from a file or an archive.
namespace ampd::data {

// Reads up to `size` bytes; fewer only at the end of the content.
using ByteSource = absl::FunctionRef<absl::StatusOr<size_t>(uint8_t* out, size_t size)>;

// Limit on all samples that a dataset holds in memory.
inline constexpr int64_t kMaxDatasetBytes = int64_t{4} << 30;

// Reads exactly `size` bytes. Memory grows with what the source holds, not with `size`.
absl::StatusOr<std::vector<uint8_t>> ReadExactly(ByteSource source, const std::string& name, int64_t size);

// DATA_ERROR unless the content ends here.
absl::Status ExpectEnd(ByteSource source, const std::string& name);

}  // namespace ampd::data
