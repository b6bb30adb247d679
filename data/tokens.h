#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "data/data_file.h"

// Token files, little-endian, as llm.c writes them (dev/data/data_common.py) or as nanoGPT does, without a header:
//
//   llm_c  := magic version count zero{253} token{count}      magic, version, count, zero: i32
//             magic 20240520, version 1: token is u16         (GPT-2's vocabulary)
//             magic 20240801, version 7: token is u32         (Llama 3's)
//   uint16 := token*                                          token: u16
//   uint32 := token*                                          token: u32
//
// A content that is surely of another format, as NumPy's array is, is none of these whatever is said of it (content.h).
// Read strictly: an llm.c file must hold as many tokens as its header says, no fewer and no more, the others a whole
// number of them; every token is below the vocabulary's size. With a limit below what the file holds nothing behind the
// last wanted token is looked at. Errors name the file and the value; reasons as in data_file.h.
namespace ampd::data {

inline constexpr int64_t kMaxTokenBytes = int64_t{64} << 30;

enum class TokenFormat {
  kAuto,  // told by the content: by llm.c's header, or by the numbers themselves (token_width.h)
  kLlmC,
  kUint16,
  kUint32,
};

// As wide as they are in the file.
using Tokens = std::variant<std::vector<uint16_t>, std::vector<uint32_t>>;

struct TokenFile {
  Tokens tokens;
  // For people: what tells the width of tokens without a header, or that their numbers look otherwise than the format
  // that was said. Empty for llm.c's files.
  std::string note;
};

// At most the first `limit` tokens; 0: all. `vocabulary`: its size; nothing: not known. DATA_ERROR naming the field
// that settles it where kAuto is left in doubt.
absl::StatusOr<TokenFile> ReadTokens(const DataFile& file, TokenFormat format, int64_t limit,
                                     std::optional<int64_t> vocabulary);

}  // namespace ampd::data
