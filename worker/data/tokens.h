#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/data_file.h"

// Token files, little-endian, as llm.c writes them (dev/data/data_common.py) or as nanoGPT does, without a header:
//
//   llm_c  := magic version count zero{253} token{count}      magic, version, count, zero: i32
//             magic 20240520, version 1: token is u16         (GPT-2's vocabulary)
//             magic 20240801, version 7: token is u32         (Llama 3's)
//   uint16 := token*                                          token: u16
//   uint32 := token*                                          token: u32
//
// Read strictly: an llm.c file must hold as many tokens as its header says, no fewer and no more, the others a whole
// number of them; every token is below the vocabulary's size. With a limit below what the file holds nothing behind the
// last wanted token is looked at. Errors name the file and the value; reasons as in data_file.h.
namespace ampd::data {

inline constexpr int64_t kMaxTokenBytes = int64_t{64} << 30;

enum class TokenFormat {
  kAuto,  // kLlmC when the file begins with one of its magics, otherwise kUint16, of vocabularies that fit into it
  kLlmC,
  kUint16,
  kUint32,
};

// As wide as they are in the file.
using Tokens = std::variant<std::vector<uint16_t>, std::vector<uint32_t>>;

// At most the first `limit` tokens; 0: all.
absl::StatusOr<Tokens> ReadTokens(const DataFile& file, TokenFormat format, int64_t limit, int64_t vocabulary);

}  // namespace ampd::data
