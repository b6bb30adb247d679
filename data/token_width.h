#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace ampd::data {

// The width of the tokens in a file without a header, derived from its numbers.
struct TokenWidth {
  int64_t token_bytes = 0;  // 2 or 4; 0: the content does not determine it.
  std::string why;          // How the width was found, or why it was not.
};

// Reads exactly `size` bytes at `offset` of a file into `out`.
using ReadAt = absl::FunctionRef<absl::Status(int64_t offset, int64_t size, void* out)>;

// Decides by three pieces of at most 1 MiB, at the beginning, in the middle and at the end. The vocabulary is not
// needed: numbers of 32 bits have an upper half that is nearly always 0, because no vocabulary has more than 2^20
// tokens. In a file of 16-bit numbers, the upper halves look like the lower ones.
absl::StatusOr<TokenWidth> WidthOfTokens(int64_t file_bytes, ReadAt read);

}  // namespace ampd::data
