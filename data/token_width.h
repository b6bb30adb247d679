#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace ampd::data {

// The number of bytes per token in a file that has tokens only, and no header that states the number. WidthOfTokens
// derives it from the size and the content of the file.
struct TokenWidth {
  int64_t token_bytes = 0;  // 2 or 4; 0 if the size and the content of the file leave it open.
  std::string why;          // For messages: how the width was found, or why not.
};

// A function that reads exactly `size` bytes at `offset` of a file into `out`.
using ReadAt = absl::FunctionRef<absl::Status(int64_t offset, int64_t size, void* out)>;

// Finds the width of the tokens from three pieces of the file, each at most 1 MiB: at its beginning, middle and end.
// The pieces are read as 32-bit numbers. If tokens have 32 bits, the upper halves are at most 15 and nearly always 0,
// because no vocabulary has more than 2^20 tokens. If tokens have 16 bits, the upper halves look like the lower ones.
// So the size of the vocabulary need not be known. The width stays open if the numbers look signed, which tokens are
// not, or if they look wider than 16 bits in a file that is no whole number of 32-bit numbers.
absl::StatusOr<TokenWidth> WidthOfTokens(int64_t file_bytes, ReadAt read);

}  // namespace ampd::data
