#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace ampd::data {

// How wide the tokens of a file without a header are, as its numbers tell.
struct TokenWidth {
  int64_t token_bytes = 0;  // 2 or 4; 0: the content does not tell
  std::string why;          // what it is told by, or why it is not
};

// Reads `size` bytes at `offset` of a file into `out`, no fewer.
using ReadAt = absl::FunctionRef<absl::Status(int64_t offset, int64_t size, void* out)>;

// Decides by three pieces of at most 1 MiB, at the beginning, in the middle and at the end, whatever the vocabulary:
// numbers of 32 bits have an upper half that is nearly always 0, as no vocabulary has more than 2^20 tokens, and where
// numbers of 16 bits stand, the upper halves are like the lower ones.
absl::StatusOr<TokenWidth> WidthOfTokens(int64_t file_bytes, ReadAt read);

}  // namespace ampd::data
