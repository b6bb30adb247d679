#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

// What the readers of every format share: bytes that come one behind the other, from a file or out of an archive.
namespace ampd::data {

// Up to `size` bytes; fewer only at the end of the content.
using ByteSource = absl::FunctionRef<absl::StatusOr<size_t>(uint8_t* out, size_t size)>;

// Of all samples that a dataset may hold in memory.
inline constexpr int64_t kMaxDatasetBytes = int64_t{4} << 30;

// The next `size` bytes, no fewer. Memory grows with what the source holds, not with `size`.
absl::StatusOr<std::vector<uint8_t>> ReadExactly(ByteSource source, const std::string& name, int64_t size);

// DATA_ERROR unless the content ends here.
absl::Status ExpectEnd(ByteSource source, const std::string& name);

}  // namespace ampd::data
