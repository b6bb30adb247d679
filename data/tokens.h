#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "data/data_file.h"

// Token files, little-endian, as written by llm.c (dev/data/data_common.py), or without a header by nanoGPT:
//
//   llm_c  := magic version count zero{253} token{count}      magic, version, count, zero: i32
//             magic 20240520, version 1: token is u16         (GPT-2's vocabulary)
//             magic 20240801, version 7: token is u32         (Llama 3's)
//   uint16 := token*                                          token: u16
//   uint32 := token*                                          token: u32
//
// A file whose content is certainly in another format (content.h), such as a NumPy array, is rejected, even if the job
// declares a token format. The file is read strictly: an llm.c file must hold exactly as many tokens as its header
// says, the other formats a whole number of tokens. There must be a token, and every token must be below the
// vocabulary's size. If the caller limits the number of tokens, nothing after the last wanted token is checked. Error
// messages name the file and the value; the errors have the reasons that data_file.h describes.
namespace ampd::data {

inline constexpr int64_t kMaxTokenBytes = int64_t{64} << 30;

enum class TokenFormat {
  kAuto,  // Detected from the content: by llm.c's header, or by the numbers themselves (token_width.h).
  kLlmC,
  kUint16,
  kUint32,
};

// Token numbers, in the width that they have in the file.
using Tokens = std::variant<std::vector<uint16_t>, std::vector<uint32_t>>;

struct TokenFile {
  Tokens tokens;
  // A note for the user, only for tokens without a header: how their width was found, or that the numbers do not look
  // like the declared format. Empty for llm.c's files.
  std::string note;
};

// Reads the first `limit` tokens, or all if `limit` is 0. `vocabulary` is the vocabulary's size, nullopt if it is
// unknown. If kAuto can't determine the format, returns DATA_ERROR naming the field to set.
absl::StatusOr<TokenFile> ReadTokens(const DataFile& file, TokenFormat format, int64_t limit,
                                     std::optional<int64_t> vocabulary);

}  // namespace ampd::data
